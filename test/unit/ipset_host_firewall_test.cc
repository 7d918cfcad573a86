// Chains of others that drop packets of Services: rules as host firewalls have them, in a network
// namespace of this host's own kernel.

#include "ipset/nft/host_firewall.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/nft/sample_walk.h"
#include "ipset/nftables/filter_kernel.h"
#include "ipset/nftables/foreign_steps.h"
#include "test/support/dumped_tables.h"
#include "test/support/nft_namespace.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::IpAddress;
using test::enter_namespace;
using test::nft;

FirewallSample firewall_sample(const char* address, std::uint16_t port, const char* server) {
  return {.address = *IpAddress::parse(address),
          .port = port,
          .server = *IpAddress::parse(server),
          .server_port = 8080};
}

FirewallSample node_port_sample(const char* address, std::uint16_t port, const char* server) {
  auto sample = firewall_sample(address, port, server);
  sample.is_node_port = true;
  return sample;
}

const std::vector<FirewallSample>& some_services() {
  static const std::vector<FirewallSample> services{
      firewall_sample("10.96.0.1", 80, "10.244.0.2"),
      firewall_sample("10.96.0.10", 53, "10.244.0.3"),
      node_port_sample("10.0.1.1", 30080, "10.244.0.2"),
      firewall_sample("fd00:96::1", 80, "fd00:244::2")};
  return services;
}

FirewallLook look_at_all(PacketFilter filter, const std::vector<FirewallSample>& samples,
                         LookBudget budget = LookBudget()) {
  const auto nftables = KernelFilterTable::open();
  REQUIRE(nftables);
  auto look = find_firewall_warnings(**nftables, filter, samples, budget);
  REQUIRE(look);
  return *look;
}

void load(const std::string& ruleset) {
  enter_namespace();
  auto lines = "flush ruleset|" + ruleset;
  std::ranges::replace(lines, '|', '\n');
  REQUIRE(nft(lines) == "");
}

// The ruleset has '|' for the ends of lines.
std::vector<FirewallWarning> warnings_of(
    const std::string& ruleset, const std::vector<FirewallSample>& samples = some_services(),
    PacketFilter filter = PacketFilter::nftables) {
  load(ruleset);
  const auto look = look_at_all(filter, samples);
  CHECK(look.unjudged.empty());
  return look.warnings;
}

std::string chain(const std::string& base, const std::string& rules) {
  return "table inet host {|chain c {|type filter hook " + base + ";|" + rules + "|}|}|";
}

TEST_CASE("firewall: a chain that drops by its policy is named with the rules that it needs") {
  const auto found = warnings_of(chain("input priority 0; policy drop", ""));
  REQUIRE(found.size() == 1);
  CHECK(found[0].drops);
  CHECK(
      found[0].text ==
      "nf_tables chain inet host c drops what comes for Services (of 10.96.0.1:80) by its policy, "
      "and no rule of another table can let it through; add: nft insert rule inet host c ip daddr "
      "{ 10.96.0.1, 10.96.0.10 } accept; nft insert rule inet host c ip6 daddr { fd00:96::1 } "
      "accept; nft insert rule inet host c meta l4proto { tcp, udp, sctp } th dport 30000-32767 "
      "accept; with all addresses of Services");
}

TEST_CASE("firewall: with the rules that were named nothing is told") {
  const auto base =
      GENERATE(as<std::string>{}, "input priority 0", "forward priority 0", "forward priority 110",
               "output priority 0", "prerouting priority -300", "postrouting priority 0");
  CAPTURE(base);
  const auto found = warnings_of(chain(base + "; policy drop", "tcp dport 22 accept;"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].drops);
  std::string rest = found[0].text.substr(found[0].text.find("; add: ") + 7);
  if (const auto end = rest.find("; with all"); end != rest.npos) rest.resize(end);
  for (auto at = rest.find("nft "); at != rest.npos; at = rest.find("nft ")) rest.erase(at, 4);
  REQUIRE(nft(rest) == "");
  CHECK(look_at_all(PacketFilter::nftables, some_services()).warnings.empty());
}

TEST_CASE("firewall: rules that let Services pass") {
  const auto* const rules = GENERATE(
      "accept", "ip daddr 10.0.0.0/8 accept; ip6 daddr fd00::/8 accept",
      "ip daddr { 10.96.0.0/12, 10.0.1.1 } counter accept; meta nfproto ipv6 accept",
      "ip daddr . th dport { 10.96.0.1 . 80, 10.96.0.10 . 53, 10.0.1.1 . 30000-32767 } accept; "
      "meta nfproto ipv6 meta l4proto tcp accept",
      "meta nfproto vmap { ipv4 : accept, ipv6 : accept }",
      "iif lo accept; ct state vmap { established : accept, invalid : drop, new : accept }",
      "ct state invalid drop; tcp dport != 22 accept", "tcp dport 23-65535 accept");
  CAPTURE(rules);
  CHECK(warnings_of(chain("input priority 10; policy drop", rules)).empty());
}

TEST_CASE("firewall: rules that do not, as host firewalls have them") {
  const auto* const rules = GENERATE(
      "iif lo accept; ct state established,related accept; tcp dport { 22, 80 } ip daddr 10.0.1.1 "
      "accept",
      "iifname lo accept; ct state vmap { established : accept, related : accept, invalid : drop "
      "}; "
      "meta l4proto icmp accept; meta l4proto ipv6-icmp accept; log prefix \"no \"; reject",
      "ct state { established, related } accept; ct status dnat accept; iifname lo accept",
      "ip saddr 10.0.0.0/8 ct state established accept; drop");
  CAPTURE(rules);
  const auto found =
      warnings_of(chain("input priority 0; policy accept", std::string(rules) + "; drop"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].drops);
}

TEST_CASE("firewall: what IPVS sends to pods does not go over lo") {
  const auto found =
      warnings_of(chain("output priority 0; policy drop", "oifname lo accept; oif lo accept"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].drops);
}

TEST_CASE("firewall: what the judge cannot know may be") {
  const auto* const rules =
      GENERATE("ip saddr 10.0.0.0/8 accept; ip6 saddr fd00::/8 accept", "iifname eth0 accept",
               "meta mark 7 accept", "limit rate 10/second accept");
  CAPTURE(rules);
  const auto found = warnings_of(chain("input priority 0; policy drop", rules));
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].drops);
  CHECK(found[0].text.find("chain inet host c may drop") != std::string::npos);
}

TEST_CASE("firewall: jumps, and verdicts that come back") {
  CHECK(warnings_of("table ip t {|chain deep {|ip daddr 10.0.0.0/8 accept|}|"
                    "chain more {|tcp dport 22 drop; goto deep|}|"
                    "chain c {|type filter hook input priority 0; policy drop; jump more|}|}|")
            .empty());
  const auto left = warnings_of(
      "table ip t {|chain more {|ip daddr 10.96.0.1 return; accept|}|"
      "chain c {|type filter hook input priority 0; policy drop; jump more|}|}|");
  REQUIRE(left.size() == 1);
  CHECK(left[0].text.find("{ 10.96.0.1 }") != std::string::npos);
  // A packet that may leave the chain meets what comes behind the jump.
  const auto maybe = warnings_of(
      "table ip t {|chain more {|meta mark 7 return; accept|}|"
      "chain c {|type filter hook input priority 0; policy drop; jump more|}|}|");
  REQUIRE(maybe.size() == 1);
  CHECK_FALSE(maybe[0].drops);
}

TEST_CASE("firewall: chains that packets of Services do not meet, and sleeping tables") {
  CHECK(warnings_of(chain("input priority 100; policy drop", "")).empty());
  CHECK(warnings_of("table inet t {|flags dormant; chain c {|type filter hook input priority 0; "
                    "policy drop;|}|}|")
            .empty());
  CHECK(
      warnings_of("table bridge t {|chain c {|type filter hook input priority 0; policy drop;|}|}|")
          .empty());
  CHECK(warnings_of("table ip6 t {|chain c {|type filter hook input priority 0; policy drop;|}|}|",
                    {firewall_sample("10.96.0.1", 80, "10.244.0.2")})
            .empty());
}

// As portmap writes them with its backend nftables.
std::string host_ports(const std::string& priority, const std::string& condition = "") {
  return "table ip cni_hostport {|chain hostports {|tcp dport 80 dnat to 10.244.0.9:80|"
         "tcp dport 30080 dnat to 10.244.0.9:80|}|"
         "chain prerouting {|type nat hook prerouting priority " +
         priority + "; " + condition + " jump hostports|}|}|";
}

TEST_CASE("firewall: host ports of nf_tables take packets from rules of iptables") {
  for (const auto* priority : {"-110", "-100", "-90"}) {
    CAPTURE(priority);
    const auto found = warnings_of(host_ports(priority), some_services(), PacketFilter::iptables);
    REQUIRE(found.size() == 1);
    CHECK(found[0].drops);
    CHECK(found[0].text ==
          "nf_tables chain ip cni_hostport prerouting takes what comes for Services (of "
          "10.96.0.1:80) to another destination, and no rule of iptables can keep it: give the "
          "host port another number, or run the daemon with --packet-filter=nftables (not with "
          "--kube-proxy-compat)");
  }
  // VIPs are addresses of this node.
  const auto local = warnings_of(host_ports("-100", "fib daddr type local"), some_services(),
                                 PacketFilter::iptables);
  REQUIRE(local.size() == 1);
  CHECK(local[0].drops);
  const auto marked =
      warnings_of(host_ports("-100", "meta mark 7"), some_services(), PacketFilter::iptables);
  REQUIRE(marked.size() == 1);
  CHECK_FALSE(marked[0].drops);
  CHECK(marked[0].text.find("prerouting may take ") != std::string::npos);
  const auto of_link =
      warnings_of(host_ports("-100", "iifname eth0"), some_services(), PacketFilter::iptables);
  REQUIRE(of_link.size() == 1);
  CHECK_FALSE(of_link[0].drops);
  const auto of_others = warnings_of(host_ports("-100", "iifname eth0 return; iifname != eth1"),
                                     some_services(), PacketFilter::iptables);
  REQUIRE(of_others.size() == 1);
  CHECK(of_others[0].drops);
}

TEST_CASE("firewall: what this node sends to an address of a Service leaves by lo") {
  const auto takes = [](const std::string& condition) {
    const auto found =
        warnings_of("table ip ports {|chain c {|type nat hook output priority -100;|" + condition +
                        " tcp dport 80 dnat to 10.244.0.9|}|}|",
                    {firewall_sample("10.96.0.1", 80, "10.244.0.2")}, PacketFilter::iptables);
    return !found.empty() && found[0].drops;
  };
  CHECK(takes("oifname lo"));
  CHECK(takes("oif lo"));
  CHECK_FALSE(takes("oifname != lo"));
  CHECK_FALSE(takes("iifname != lo oif != lo"));
}

TEST_CASE("firewall: host ports that are no Service's, or come behind ours, take nothing") {
  CHECK(warnings_of(host_ports("-100")).empty());
  const auto early = warnings_of(host_ports("-110"));
  REQUIRE(early.size() == 1);
  CHECK(
      early[0].text.ends_with("the chain comes before ours: give it a priority above that of "
                              "ours"));
  // Of a node port and an equal host port the host port is first.
  const std::vector<FirewallSample> others{firewall_sample("10.96.0.1", 81, "10.244.0.2"),
                                           node_port_sample("10.0.1.1", 30080, "10.244.0.2"),
                                           firewall_sample("fd00:96::1", 80, "fd00:244::2")};
  CHECK(warnings_of(host_ports("-100"), others, PacketFilter::iptables).empty());
  CHECK(warnings_of("table ip t {|chain c {|type nat hook postrouting priority 100; masquerade|}|"
                    "chain p {|type nat hook prerouting priority -100; ip daddr 10.96.0.1 accept|}|"
                    "}|",
                    some_services(), PacketFilter::iptables)
            .empty());
}

TEST_CASE("firewall: without Services any packet counts") {
  const auto found = warnings_of(
      "table ip t {|chain c {|type filter hook input priority 0; policy drop;|}|}|", {});
  REQUIRE(found.size() == 1);
  CHECK(found[0].text.find("ip daddr { SERVICE-ADDRESSES } accept") != std::string::npos);
}

SamplePacket one_packet() {
  return {.packet = {.destination = *IpAddress::parse("10.96.0.1")}};
}

// Compared one by one for every rule, such a set would hold whoever asks for minutes.
TEST_CASE("firewall: rules that look a packet up in a large set are judged as far as a bound") {
  FilterSet blocked;
  blocked.spec.key_bytes = 4;
  for (std::uint8_t high = 0; high < 80; ++high)
    for (std::uint8_t low = 0; low < 250; ++low)
      blocked.elements.push_back({.key = {198, 51, high, low}});
  const std::vector<netlink::NftExpression> drops_blocked{
      netlink::NftPayload{
          .target = 1, .header = netlink::NftHeader::network, .offset = 16, .size = 4},
      netlink::NftLookup{.set = "blocked", .source = 1},
      netlink::NftImmediate{.data = netlink::NftVerdict{.code = netlink::NftVerdictCode::drop}}};
  const auto is_judged_beside = [&](std::size_t count) {
    NoSets none;
    const std::vector<std::vector<NftStep>> rules(
        count, steps_of(drops_blocked, netlink::Family::ipv4, none));
    const FirewallTable table{.rules = [&](const auto&) { return &rules; },
                              .sets = {.table = {}, .find = [&](const auto&) { return &blocked; }}};
    LookBudget budget(100'000);
    const auto fate = fate_of(walk_sample(table, "input", true, one_packet(), budget));
    CHECK((budget.is_spent() || fate == FirewallFate::passes));
    return !budget.is_spent();
  };
  CHECK(is_judged_beside(10));
  CHECK_FALSE(is_judged_beside(100));
}

std::string repeated(const std::string& rule, int times) {
  std::string rules;
  for (int i = 0; i < times; ++i) rules += rule + ";|";
  return rules;
}

TEST_CASE("firewall: a look ends, and says which tables it did not judge") {
  load("table inet a {|chain c {|type filter hook input priority 0; policy drop;|" +
       repeated("ip saddr 192.0.2.1 meta mark 7 accept", 500) +
       "}|}|table inet z {|chain c {|type filter hook input priority 0; policy drop;|}|}|");
  const std::vector<FirewallSample> one{firewall_sample("10.96.0.1", 80, "10.244.0.2")};
  SECTION("steps: each chain has its share") {
    const auto look = look_at_all(PacketFilter::nftables, one, LookBudget(1'000));
    REQUIRE(look.warnings.size() == 1);
    CHECK(look.warnings[0].chain == "inet z c");
    CHECK(look.unjudged == std::map<std::string, std::string>{
                               {"nf_tables table inet a", "it takes too long to judge"}});
    CHECK(text_of_unjudged("nf_tables table inet a", "it takes too long to judge") ==
          "whether nf_tables table inet a drops packets of Services is not known: it takes too "
          "long to judge");
  }
  SECTION("rules of one table") {
    const auto look = look_at_all(PacketFilter::nftables, one, LookBudget(LookBudget::kSteps, 100));
    REQUIRE(look.warnings.size() == 1);
    CHECK(look.warnings[0].table == "nf_tables table inet z");
    CHECK(look.unjudged.at("nf_tables table inet a") == "it has too many rules");
  }
  SECTION("time") {
    const auto look = look_at_all(PacketFilter::nftables, one,
                                  LookBudget(LookBudget::kSteps, LookBudget::kRules, {}));
    CHECK(look.warnings.empty());
    CHECK(look.unjudged.at("nf_tables table inet a") == "it takes too long to judge");
    CHECK(look.unjudged.at("nf_tables table inet z") == "it takes too long to judge");
    CHECK(look.was_late);
  }
  SECTION("enough") {
    const auto look = look_at_all(PacketFilter::nftables, one);
    CHECK(look.warnings.size() == 2);
    CHECK(look.unjudged.empty());
    CHECK_FALSE(look.was_late);
  }
}

TEST_CASE("firewall: a rule of names that a shell would take apart is quoted") {
  const auto found = warnings_of(
      "table inet t.x {|chain a/b {|type filter hook forward priority 0; policy drop;|}|}|");
  REQUIRE(found.size() == 1);
  CHECK(found[0].text.ends_with(
      "nft insert rule inet t.x 'a/b' ct state established,related accept"));
}

TEST_CASE("firewall: by its policy is said where no rule drops") {
  const auto found = warnings_of(chain("input priority 0; policy drop", "drop;"));
  REQUIRE(found.size() == 1);
  CHECK(found[0].text.find("by its policy") == std::string::npos);
}

TEST_CASE("firewall: kube-proxy's chains take nothing from us, others' that begin like them do") {
  CHECK(
      warnings_of("table ip kube-proxy {|chain nat-prerouting {|type nat hook prerouting priority "
                  "-100; tcp dport 80 dnat to 10.244.0.9|}|}|",
                  some_services(), PacketFilter::iptables)
          .empty());
  const auto into = [](const std::string& name) {
    return warnings_of("table ip nat {|chain " + name + " {|tcp dport 80 dnat to 10.244.0.9|}|" +
                           "chain PREROUTING {|type nat hook prerouting priority -100; jump " +
                           name + "|}|}|",
                       some_services(), PacketFilter::iptables);
  };
  CHECK(into("KUBE-SERVICES").empty());
  CHECK(into("KUBE-ROUTER-SERVICES").size() == 1);
}

std::vector<FirewallWarning> warnings_of_dump(const char* dump, std::uint16_t port) {
  test::DumpedTables tables(dump);
  LookBudget budget;
  const auto look = find_firewall_warnings(
      tables, PacketFilter::iptables, {firewall_sample("10.96.0.1", port, "10.244.0.2")}, budget);
  REQUIRE(look);
  return look->warnings;
}

bool takes(const std::vector<FirewallWarning>& warnings) {
  return std::ranges::any_of(warnings, [](const auto& one) {
    return one.drops && one.text.find(" takes what comes for Services") != std::string::npos;
  });
}

// With matches of iptables (addrtype, tcp, comment) and its target DNAT.
TEST_CASE("firewall: docker's published ports take what comes, written by nft or iptables-nft") {
  for (const auto* dump : {"docker", "docker_iptables", "portmap"}) {
    CAPTURE(dump);
    CHECK(takes(warnings_of_dump(dump, 8443)));
    CHECK_FALSE(takes(warnings_of_dump(dump, 8444)));
  }
}

// Attributes NFTA_MATCH_NAME, NFTA_MATCH_REV and NFTA_MATCH_INFO; targets have the same numbers.
netlink::NftExpression xt_expression(const char* kind, const std::string& name,
                                     const std::string& info) {
  netlink::NftOtherExpression one{.name = kind, .data = {}};
  const auto put = [&](std::uint8_t type, std::string value) {
    one.data.insert(one.data.end(), {static_cast<std::uint8_t>(value.size() + 4), 0, type, 0});
    value.resize((value.size() + 3) / 4 * 4);
    one.data.insert(one.data.end(), value.begin(), value.end());
  };
  put(1, name + '\0');
  put(2, std::string(4, '\0'));
  put(3, info);
  return one;
}

FirewallTranslation translation_by(const std::vector<netlink::NftExpression>& expressions) {
  NoSets none;
  const std::vector<std::vector<NftStep>> rules{steps_of(expressions, netlink::Family::ipv4, none)};
  const FirewallTable table{.rules = [&](const auto&) { return &rules; }, .sets = {}};
  LookBudget budget;
  return translation_of(walk_sample(table, "c", true, one_packet(), budget));
}

TEST_CASE("firewall: a target of iptables is known by its name alone") {
  const auto log = xt_expression("target", "LOG", std::string("to DNAT\0", 8));
  CHECK(translation_by({log}) == FirewallTranslation::none);
  const auto comment = xt_expression("match", "comment", "DNAT");
  CHECK(translation_by({comment, netlink::NftRedirect{}}) == FirewallTranslation::certain);
  CHECK(translation_by({xt_expression("target", "NETMAP", std::string(40, '\0'))}) ==
        FirewallTranslation::possible);
}

TEST_CASE("firewall: an element with a limit or quota may not match") {
  const auto found = warnings_of(
      "table ip host {|set seen {|type ipv4_addr; limit rate 10/second;|"
      "elements = { 10.96.0.1 limit rate 10/second }|}|"
      "chain c {|type filter hook input priority 0; ip daddr @seen drop|}|}|");
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].drops);
  CHECK(found[0].text.find("chain ip host c may drop what comes for Services (of 10.96.0.1:80)") !=
        std::string::npos);
}

TEST_CASE("firewall: a mark that a rule sets is known after it, unless the rule may not match") {
  CHECK(warnings_of(chain("input priority 0; policy drop", "meta mark set 7; meta mark 7 accept"))
            .empty());
  const auto found = warnings_of(
      chain("input priority 0; policy drop", "iifname eth0 meta mark set 7; meta mark 7 accept"));
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].drops);
}

TEST_CASE("firewall: before connection tracking no packet has a state, unless a rule untracks it") {
  const auto drops = [](const std::string& rules) {
    const auto found = warnings_of(chain("prerouting priority -300; policy drop", rules));
    return !found.empty() && found[0].drops;
  };
  CHECK(drops("ct state new accept"));
  CHECK_FALSE(drops("ct state invalid accept"));
  CHECK_FALSE(drops("notrack; ct state untracked accept"));
  CHECK_FALSE(drops("iifname eth0 notrack; ct state untracked accept"));
}

TEST_CASE("firewall: a map that may have several verdicts for a packet") {
  const auto found = warnings_of(
      "table ip host {|chain c {|type filter hook input priority 0;|"
      "ip saddr vmap { 10.0.0.0/8 : accept, 192.0.2.0/24 : drop }|}|}|");
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].drops);
}

TEST_CASE("firewall: a translation to an address of one family leaves the other as it is") {
  const std::string rules =
      "table inet ports {|chain p {|type nat hook prerouting priority -100;|"
      "tcp dport 80 dnat ip to 10.244.0.9|}|}|";
  CHECK(
      warnings_of(rules, {firewall_sample("fd00:96::1", 80, "fd00:244::2")}, PacketFilter::iptables)
          .empty());
  CHECK(warnings_of(rules, {firewall_sample("10.96.0.1", 80, "10.244.0.2")}, PacketFilter::iptables)
            .size() == 1);
}

// The kernel takes the low byte for the verdict (NF_VERDICT_MASK); up to Linux 6.8 programs may set
// the others.
TEST_CASE("firewall: a drop with an error number drops") {
  NoSets none;
  const auto verdict = netlink::NftVerdict{static_cast<netlink::NftVerdictCode>(1 << 16), {}};
  const std::vector<std::vector<NftStep>> rules{
      steps_of(std::vector<netlink::NftExpression>{netlink::NftImmediate{.data = verdict}},
               netlink::Family::ipv4, none)};
  const FirewallTable table{.rules = [&](const auto&) { return &rules; }, .sets = {}};
  LookBudget budget;
  CHECK(fate_of(walk_sample(table, "c", true, one_packet(), budget)) == FirewallFate::drops);
}

TEST_CASE("firewall: node ports outside the usual range are named") {
  const auto found = warnings_of(chain("input priority 0; policy drop", ""),
                                 {node_port_sample("10.0.1.1", 8080, "10.244.0.2"),
                                  node_port_sample("10.0.1.1", 30080, "10.244.0.2")});
  REQUIRE(found.size() == 1);
  CHECK(found[0].text.find("th dport { 8080, 30000-32767 } accept") != std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::ipset
