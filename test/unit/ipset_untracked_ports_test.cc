// Ports that rules keep from connection tracking: in legacy iptables, and in nf_tables in a network
// namespace of this host's own kernel.

#include "ipset/nft/untracked_ports.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "ipset/nftables/filter_kernel.h"
#include "test/support/cluster_builder.h"
#include "test/support/ip.h"
#include "test/support/nft_namespace.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using test::ip;
using test::prefix;
using Lines = std::vector<std::string>;

const std::set<netlink::IpAddress> kAddresses{ip("10.96.0.10"), ip("169.254.20.10"),
                                              ip("192.0.2.1"), ip("fd00:96::a")};

Lines lines_of(const UntrackedLook& look) {
  CHECK(look.unjudged.empty());
  Lines lines;
  for (const auto& one : look.ports)
    lines.push_back(fmt::format("{} {} {}-{} {}", one.address.to_string(), to_string(one.protocol),
                                one.first, one.last, one.table));
  return lines;
}

Rule untracking(std::vector<Condition> conditions, Action action = NoTrackAction{}) {
  return {.target = ForeignTarget{.description = "foreign",
                                  .conditions = std::move(conditions),
                                  .action = std::move(action)}};
}
Condition to(const char* range) {
  return AddressCondition{.prefix = prefix(range)};
}
Condition udp() {
  return ProtocolCondition{17};
}
Condition ports(std::uint16_t first, std::uint16_t last) {
  return PortCondition{.directions = {Direction::dst}, .ranges = {{first, last}}};
}

Lines legacy(const std::vector<Rule>& prerouting, const std::vector<Rule>& output = {},
             const std::vector<Rule>& chain = {}) {
  WholeTable table;
  table.chains = {{"PREROUTING", prerouting}, {"OUTPUT", output}, {"HOST", chain}};
  LookBudget budget;
  return lines_of(find_legacy_untracked_ports(Family::ipv4, table, kAddresses, budget));
}

TEST_CASE("untracked ports: rules of the table raw that name an address") {
  const Lines one{"10.96.0.10 UDP 53-53 legacy IPv4 table raw"};
  CHECK(legacy({untracking({to("10.96.0.10/32"), udp(), ports(53, 53)})}) == one);
  CHECK(legacy({}, {untracking({to("10.96.0.10/32"), udp(), ports(53, 53)})}) == one);
  // Within a chain, and to a network.
  CHECK(legacy({untracking({to("10.96.0.0/16")}, JumpTarget{"HOST"})}, {},
               {untracking({udp(), ports(53, 53)})}) == one);
  CHECK(legacy({untracking({to("10.96.0.10/32"), udp(), ports(53, 60)})}) ==
        Lines{"10.96.0.10 UDP 53-60 legacy IPv4 table raw"});
  CHECK(legacy({untracking({to("10.96.0.10/32"), udp()})}) ==
        Lines{"10.96.0.10 UDP 0-65535 legacy IPv4 table raw"});
}

TEST_CASE("untracked ports: rules about all addresses, and those that do not hold, are none") {
  // As of CNIs for the port of their tunnels.
  CHECK(legacy({untracking({udp(), ports(4789, 4789)})}).empty());
  CHECK(legacy({untracking({})}).empty());
  CHECK(legacy({untracking({UnknownCondition{}, udp(), ports(53, 53)})}).empty());
  CHECK(legacy({untracking({to("10.96.0.10/32"), udp(), ports(53, 53)}, Verdict::accept)}).empty());
  CHECK(legacy({untracking({to("10.96.0.10/32")}, Verdict::accept),
                untracking({to("10.96.0.10/32"), udp(), ports(53, 53)})})
            .empty());
  CHECK(legacy({untracking({to("10.96.0.11/32"), udp(), ports(53, 53)})}).empty());
  // What this node answers from there.
  CHECK(
      legacy({},
             {untracking(
                 {AddressCondition{.direction = Direction::src, .prefix = prefix("10.96.0.10/32")},
                  udp(), PortCondition{.directions = {Direction::src}, .ranges = {{53, 53}}}})})
          .empty());
}

TEST_CASE("untracked ports: more than can be judged is told") {
  std::vector<Rule> rules;
  for (std::uint16_t port = 1; port < 2000; ++port)
    rules.push_back(untracking({to("10.96.0.10/32"), udp(), ports(2 * port, 2 * port)}));
  WholeTable table;
  table.chains = {{"PREROUTING", rules}};
  LookBudget budget;
  const auto look = find_legacy_untracked_ports(Family::ipv4, table, kAddresses, budget);
  CHECK(look.unjudged.contains("legacy IPv4 table raw"));
}

// The ruleset has '|' for the ends of lines.
Lines in_nft(const std::string& ruleset) {
  test::enter_namespace();
  auto text = "flush ruleset|" + ruleset;
  std::ranges::replace(text, '|', '\n');
  REQUIRE(test::nft(text) == "");
  const auto nftables = KernelFilterTable::open();
  REQUIRE(nftables);
  LookBudget budget;
  const auto look = find_untracked_ports(**nftables, kAddresses, budget);
  REQUIRE(look);
  return lines_of(*look);
}

std::string raw(const std::string& rules, const std::string& base = "prerouting priority -300") {
  return "table inet dns {|set here {|type ipv4_addr . inet_service|elements = { 10.96.0.10 . 53 "
         "}|}|chain c {|type filter hook " +
         base + ";|" + rules + "|}|}|";
}

TEST_CASE("untracked ports: rules of nf_tables") {
  const Lines one{"10.96.0.10 UDP 53-53 nf_tables table inet dns"};
  CHECK(in_nft(raw("ip daddr 10.96.0.10 udp dport 53 notrack")) == one);
  CHECK(in_nft(raw("ip daddr 10.96.0.10 udp dport 53 counter notrack accept")) == one);
  CHECK(in_nft(raw("ip daddr 10.96.0.10 udp dport 53 notrack", "output priority raw")) == one);
  CHECK(in_nft(raw("meta l4proto udp ip daddr . th dport @here notrack")) == one);
  CHECK(in_nft(raw("ip daddr { 10.96.0.10, 169.254.20.10 } udp dport { 53, 9253 } notrack")) ==
        Lines{"10.96.0.10 UDP 53-53 nf_tables table inet dns",
              "10.96.0.10 UDP 9253-9253 nf_tables table inet dns",
              "169.254.20.10 UDP 53-53 nf_tables table inet dns",
              "169.254.20.10 UDP 9253-9253 nf_tables table inet dns"});
  CHECK(in_nft(raw("ip6 daddr fd00:96::a tcp dport 50-59 notrack")) ==
        Lines{"fd00:96::a TCP 50-59 nf_tables table inet dns"});
}

TEST_CASE("untracked ports: rules of nf_tables that come too late, or name no address") {
  CHECK(in_nft(raw("ip daddr 10.96.0.10 udp dport 53 notrack", "input priority 0")).empty());
  CHECK(in_nft(raw("udp dport 4789 notrack")).empty());
  CHECK(
      in_nft(raw("ip daddr 10.96.0.10 accept; ip daddr 10.96.0.10 udp dport 53 notrack")).empty());
  CHECK(in_nft(raw("ip daddr 10.96.0.10 udp dport 53 accept")).empty());
}

}  // namespace
}  // namespace ipvsproxier::ipset
