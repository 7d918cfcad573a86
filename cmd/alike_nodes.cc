#include "cmd/alike_nodes.h"

#include <algorithm>

#include <fmt/format.h>

namespace ipvsproxier::cmd {

namespace {

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::string_view first_label(std::string_view name) {
  return name.substr(0, name.find('.'));
}

// The first address of the Node that this host has.
const netlink::IpAddress* shared_address(const api::Node& node,
                                         const std::set<netlink::IpAddress>& own) {
  for (const auto* list : {&node.internal_ips, &node.external_ips})
    for (const auto& address : *list)
      if (own.contains(address)) return &address;
  return nullptr;
}

}  // namespace

bool is_alike(std::string_view a, std::string_view b) {
  const auto label = first_label(a);
  const bool equal = std::ranges::equal(
      label, first_label(b), [](char one, char two) { return lower(one) == lower(two); });
  return equal && !label.empty() && !netlink::IpAddress::parse(a) && !netlink::IpAddress::parse(b);
}

void note_alike_names(std::string_view node_name, const model::Changes& changes,
                      std::set<std::string>& names) {
  for (const auto& [name, slice] : changes.slices) {
    if (!slice) continue;
    for (const auto& endpoint : slice->endpoints)
      if (names.size() < kMostAlikeNodes && endpoint.node_name != node_name &&
          is_alike(endpoint.node_name, node_name))
        names.emplace(endpoint.node_name);
  }
}

std::vector<std::string> alike_nodes(std::string_view node_name,
                                     const std::set<netlink::IpAddress>& own,
                                     const std::vector<api::Node>& others,
                                     const std::set<std::string>& named) {
  std::vector<std::string> by_address;
  std::set<std::string> by_name = named;
  for (const auto& node : others) {
    if (const auto* address = shared_address(node, own)) {
      by_address.push_back(fmt::format("{} (address {})", node.name, address->to_string()));
      by_name.erase(node.name);
    } else if (is_alike(node.name, node_name)) {
      by_name.insert(node.name);
    }
  }
  by_address.insert(by_address.end(), by_name.begin(), by_name.end());
  if (by_address.size() > kMostAlikeNodes) by_address.resize(kMostAlikeNodes);
  return by_address;
}

}  // namespace ipvsproxier::cmd
