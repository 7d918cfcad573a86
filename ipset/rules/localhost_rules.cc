#include "ipset/rules/localhost_rules.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ipset/sets/set_catalog.h"

namespace ipvsproxier::ipset {

namespace {

using netlink::IpAddress;
using netlink::IpPrefix;

IpPrefix host_of(const IpAddress& address) {
  return IpPrefix::of(address, netlink::address_bits(address.family()));
}

LocalhostLoop loop_of(const char* localhost, const char* sources, const char* near, const char* far,
                      const char* server, const char* all) {
  return {.localhost = *IpAddress::parse(localhost),
          .sources = *IpPrefix::parse(sources),
          .near = *IpAddress::parse(near),
          .far = *IpAddress::parse(far),
          .server = *IpAddress::parse(server),
          .all = *IpPrefix::parse(all)};
}

}  // namespace

const LocalhostLoop& localhost_loop(Family family) {
  static const auto v4 = loop_of("127.0.0.1", "127.0.0.0/8", "169.254.107.1", "169.254.107.2",
                                 "169.254.107.3", "169.254.107.0/30");
  static const auto v6 = loop_of("::1", "::1/128", "fd69:7076:7301::1", "fd69:7076:7301::2",
                                 "fd69:7076:7301::3", "fd69:7076:7301::/126");
  return family == Family::ipv4 ? v4 : v6;
}

bool is_about_loop(const TableRules& table) {
  const auto& all = localhost_loop(table.family).all;
  return std::ranges::any_of(table.chains, [&](const Chain& chain) {
    return std::ranges::any_of(chain.rules, [&](const Rule& rule) {
      return rule.destination && all.contains(rule.destination->address);
    });
  });
}

std::vector<Rule> localhost_rules(std::string_view chain, Family family,
                                  const RuleParameters& parameters) {
  if (!parameters.localhost) return {};
  const auto& loop = localhost_loop(family);
  if (chain == "KUBE-SERVICES") {
    std::vector<Rule> rules{
        {.destination = loop.all, .target = JumpTarget{.chain = std::string(kMarkChain)}},
        {.destination = host_of(loop.near), .target = DestinationTarget{.address = loop.server}}};
    if (parameters.non_empty.contains(SetId::localhost))
      rules.insert(rules.begin(),
                   {.source = SourceMatch{.prefix = loop.sources},
                    .destination = host_of(loop.localhost),
                    .matches = {SetMatch{.set = set_name(SetId::localhost, family),
                                         .directions = {Direction::dst, Direction::dst}}},
                    .target = DestinationTarget{.address = loop.near}});
    return rules;
  }
  if (chain == "KUBE-POSTROUTING")
    return {{.source = SourceMatch{.prefix = loop.sources},
             .destination = host_of(loop.near),
             .target = SourceTarget{.address = loop.far}}};
  // No packet that is on its way has such a destination here: nobody translated it, or the address
  // is not there.
  if (chain == "KUBE-FORWARD")
    return {{.destination = host_of(loop.near), .target = Verdict::drop},
            {.destination = host_of(loop.server), .target = Verdict::drop},
            {.destination = host_of(loop.far),
             .in_interface = InInterfaceMatch{.name = std::string(kLoopLinks), .is_prefix = true},
             .target = Verdict::drop}};
  if (chain == "KUBE-IPVS-FILTER")
    return {{.source = SourceMatch{.prefix = host_of(loop.far)},
             .destination = host_of(loop.server),
             .in_interface = InInterfaceMatch{.name = std::string(kSecondLoopLink)},
             .target = Verdict::return_},
            {.destination = host_of(loop.server), .target = Verdict::drop}};
  return {};
}

}  // namespace ipvsproxier::ipset
