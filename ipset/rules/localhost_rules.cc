#include "ipset/rules/localhost_rules.h"

#include <algorithm>
namespace ipvsproxier::ipset {

namespace {

using netlink::IpAddress;
using netlink::IpPrefix;

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

}  // namespace ipvsproxier::ipset
