#include "cmd/known_values.h"

#include <net/if.h>

#include <memory>

#include "ipset/set_catalog.h"

namespace ipvsproxier::cmd {

namespace {

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const auto family : {netlink::Family::ipv4, netlink::Family::ipv6})
    for (const auto id : ipset::kSetIds) names.push_back(ipset::set_name(id, family));
  return names;
}

std::vector<std::string> link_names() {
  const std::unique_ptr<struct if_nameindex[], decltype(&::if_freenameindex)> links(
      ::if_nameindex(), &::if_freenameindex);
  std::vector<std::string> names;
  for (const auto* link = links.get(); link != nullptr && link->if_index != 0; ++link)
    names.emplace_back(link->if_name);
  return names;
}

}  // namespace

std::vector<std::string> known_values(std::string_view type, std::string_view /*begun*/) {
  if (type == "SET") return set_names();
  if (type == "LINK") return link_names();
  return {};
}

}  // namespace ipvsproxier::cmd
