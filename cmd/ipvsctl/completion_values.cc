#include "cmd/ipvsctl/completion_values.h"

#include <net/if.h>

#include <algorithm>
#include <memory>
#include <set>

#include "cmd/command_line.h"
#include "cmd/ipvsctl/names/daemon_names.h"
#include "ipset/rules/rule_catalog.h"
#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ctl {

namespace {

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const auto family : {netlink::Family::ipv4, netlink::Family::ipv6})
    for (const auto id : ipset::kSetIds) names.push_back(ipset::set_name(id, family));
  return names;
}

std::vector<std::string> chain_names() {
  std::set<std::string> names;
  for (const auto& table : ipset::rules_for(netlink::Family::ipv4, {})) {
    for (const auto& chain : table.chains) names.insert(chain.name);
    for (const auto& jump : table.jumps) names.insert(jump.from);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> link_names() {
  const std::unique_ptr<struct if_nameindex[], decltype(&::if_freenameindex)> links(
      ::if_nameindex(), &::if_freenameindex);
  std::vector<std::string> names;
  for (const auto* link = links.get(); link != nullptr && link->if_index != 0; ++link)
    names.emplace_back(link->if_name);
  return names;
}

// Of Services with a virtual service.
std::vector<std::string> service_names(bool namespaces_only) {
  ControlClient daemon(cmd::kControlSocket);
  const auto known = names_of_daemon(daemon);
  if (!known) return {};
  std::set<std::string> names;
  for (const auto& [key, one] : known->virtuals()) {
    const auto name = *known->of(key);
    names.insert(namespaces_only ? std::string(name.ns)
                                 : std::string(name.ns) + "/" + std::string(name.service));
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> values_of(std::string_view type) {
  if (type == "SET") return set_names();
  if (type == "CHAIN") return chain_names();
  if (type == "LINK") return link_names();
  if (type == "NAMESPACE" || type == "SERVICE") return service_names(type == "NAMESPACE");
  return {};
}

// Shells insert values unquoted, so only plain characters are safe.
bool is_plain_word(std::string_view word) {
  return std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:@").find(c) != std::string_view::npos;
  });
}

}  // namespace

std::vector<std::string> completion_values(std::string_view type, std::string_view /*begun*/) {
  auto values = values_of(type);
  std::erase_if(values, [](const std::string& value) { return !is_plain_word(value); });
  return values;
}

}  // namespace ipvsproxier::ctl
