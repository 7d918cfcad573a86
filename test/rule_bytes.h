#pragma once

// Entries of the legacy tables for tests of their codec, without a kernel.

#include <algorithm>
#include <vector>

#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_codec.h"
#include "ipset/rules/rule_layout.h"

namespace ipvsproxier::test {

// Sets with indexes in the order of the catalogue, IPv4 before IPv6, as a kernel gives them that
// had no set before. Those that kube-proxy does not have come last.
class CatalogSets : public ipset::SetResolver {
 public:
  CatalogSets() {
    for (const auto family : netlink::kFamilies)
      for (const auto id : ipset::kSetIds) names_.push_back(set_name(id, family));
    for (const auto family : netlink::kFamilies)
      for (const auto id : ipset::kOwnSetIds) names_.push_back(set_name(id, family));
  }
  netlink::Result<std::uint16_t> index_of(const std::string& name, netlink::Family) override {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end())
      return netlink::Error{.kind = netlink::ErrorKind::missing, .where = name};
    return static_cast<std::uint16_t>(found - names_.begin());
  }
  std::optional<std::string> name_of(std::uint16_t index) override {
    if (index >= names_.size()) return std::nullopt;
    return names_[index];
  }

 private:
  std::vector<std::string> names_;
};

// What libiptc's get_target says of an entry that was just encoded.
inline std::string label_of(netlink::Family family, const ipset::Bytes& bytes) {
  return ipset::split_entry(family, bytes)->target.name;
}

// An entry as the kernel gives it back: a verdict or a jump has lost its name.
inline ipset::Bytes as_read(const ipset::Rule& rule, netlink::Family family,
                            const ipset::Bytes& bytes) {
  auto parts = *ipset::split_entry(family, bytes);
  if (std::holds_alternative<ipset::Verdict>(rule.target) ||
      std::holds_alternative<ipset::JumpTarget>(rule.target))
    parts.target.name.clear();
  return ipset::join_entry(family, parts);
}

// Parameters that together have every rule of the catalogue.
inline std::vector<ipset::RuleParameters> all_parameters(netlink::Family family) {
  ipset::RuleParameters base;
  base.non_empty.insert(ipset::kSetIds.begin(), ipset::kSetIds.end());
  const auto* const vip = family == netlink::Family::ipv4 ? "192.0.2.10" : "2001:db8::a";
  for (const auto protocol :
       {netlink::Protocol::tcp, netlink::Protocol::udp, netlink::Protocol::sctp})
    base.out_filter.insert({*netlink::IpAddress::parse(vip), protocol, 443});
  std::vector<ipset::RuleParameters> result(6, base);
  result[1].detector = *netlink::IpPrefix::parse(family == netlink::Family::ipv4 ? "10.244.0.0/17"
                                                                                 : "fd00:244::/65");
  result[2].detector = ipset::BridgeInterface{"cbr0"};
  result[3].detector = ipset::InterfacePrefix{"veth"};
  result[4].masquerade_all = true;
  result[5].masquerade_mark = 0x80000000;
  return result;
}

}  // namespace ipvsproxier::test
