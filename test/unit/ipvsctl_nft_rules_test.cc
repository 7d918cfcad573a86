// `ipvsctl rules` of tables of nf_tables, over nf_tables in memory.

#include <algorithm>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cmd/ipvsctl/rules/rule_listing.h"
#include "ipset/nftables/nft_rule_table.h"
#include "ipset/nftables/nft_set_elements.h"
#include "ipset/nftables/nft_set_table.h"
#include "ipset/nftables/rule_expressions.h"
#include "ipset/rules/nft_catalog.h"
#include "test/fakes/fake_filter_table.h"
#include "test/support/ip.h"
#include "test/support/whole_table.h"

namespace ipvsproxier::ctl {
namespace {

using namespace ipset;
using netlink::NftVerdict;
using netlink::NftVerdictCode;
using test::ip;

std::vector<netlink::NftExpression> verdict_alone(NftVerdictCode code, std::string chain = {}) {
  return {netlink::NftImmediate{.data = NftVerdict{code, std::move(chain)}}};
}

struct NftHost {
  test::FakeNfTables kernel;
  test::FakeFilterTable table{kernel, 1};
  test::FakeFilterTable stranger{kernel, 2};
  NftSetTable sets{table};
  NftRuleTable rules{table};
  const netlink::NftTableKey key = nft_table_of(Family::ipv4);
  RuleParameters settings;  // what the daemon's flags and its Node say

  static RuleParameters usual() {
    return {.detector = *IpPrefix::parse("10.244.0.0/16"),
            .non_empty = {SetId::nft_source_ranges, SetId::nft_services, SetId::nft_vips}};
  }
  // As the daemon leaves it, with a Service that has source ranges.
  void program(const RuleParameters& parameters = usual()) {
    settings = parameters;
    settings.non_empty.clear();
    settings.keep_destinations = true;
    for (const auto id : kNftSetIds) REQUIRE(sets.ensure(set_spec(id, Family::ipv4)));
    add(SetId::nft_vips, IpElement{ip("192.0.2.10")});
    if (parameters.non_empty.contains(SetId::nft_source_ranges))
      add(SetId::nft_source_ranges,
          RangesElement{ip("192.0.2.10"),
                        Protocol::tcp,
                        80,
                        {*IpPrefix::parse("10.0.0.0/8"), *IpPrefix::parse("203.0.113.0/24")}});
    add(SetId::nft_services,
        ServiceElement{ip("192.0.2.10"), Protocol::tcp, 80, ServiceVerdict::mark,
                       parameters.non_empty.contains(SetId::nft_source_ranges)});
    if (parameters.non_empty.contains(SetId::nft_in_cluster))
      add(SetId::nft_in_cluster,
          DestinationElement{ip("192.0.2.10"), Protocol::tcp, 80, ip("10.96.0.9"), 80});
    if (parameters.non_empty.contains(SetId::nft_on_links))
      add(SetId::nft_on_links,
          DestinationElement{ip("10.0.0.1"), Protocol::tcp, 80, ip("10.0.0.1"), 80});
    REQUIRE(rules.apply(nft_rules(Family::ipv4, parameters)));
  }
  void add(SetId id, const Element& element) {
    const ElementOp op{.add = true, .element = element};
    REQUIRE(sets.apply(set_spec(id, Family::ipv4), {&op, 1}).front());
  }
  void meddle(std::vector<netlink::NftOp> ops) {
    const netlink::NftUnit unit{std::move(ops)};
    REQUIRE(stranger.apply({&unit, 1}).front());
  }
  void add_rule(const std::string& chain, std::vector<netlink::NftExpression> expressions) {
    meddle({netlink::NftAddRule{key, {.chain = chain, .expressions = std::move(expressions)}}});
  }
  RuleReading read() {
    RuleReading reading;
    for (const auto family : netlink::kFamilies) {
      auto contents = table.list(nft_table_of(family));
      REQUIRE(contents);
      if (*contents) take_nft_table(reading, family, **contents);
      reading.settings[family] = settings;
    }
    return reading;
  }
  std::string text(const RuleChoice& choice = {.family = Family::ipv4}) {
    return rules_text(read(), {.choice = choice});
  }
  nlohmann::json document() {
    return nlohmann::json::parse(
        rules_text(read(), {.choice = {.family = Family::ipv4}, .form = RuleForm::json}));
  }
};

bool tells(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kListing =
    R"(IPv4 kube-ipvs prerouting, type nat hook prerouting priority -105, policy accept
  ip daddr @vips dnat to ip daddr  # ip kube-ipvs vips: 1 element

IPv4 kube-ipvs input, type filter hook input priority -5, policy accept
  ct state established,related ip daddr . meta l4proto . th dport vmap @restricted  # ip kube-ipvs restricted: 1 element
  ct state established,related accept
  ip daddr . meta l4proto . th dport vmap @services  # ip kube-ipvs services: 1 element
  ip daddr @vips jump to_vip  # ip kube-ipvs vips: 1 element

IPv4 kube-ipvs to_vip
  icmp type echo-request return
  tcp dport @health_ports return  # ip kube-ipvs health_ports: 0 elements
  ct state new reject

IPv4 kube-ipvs output, type nat hook output priority -105, policy accept
  jump classify
  ip daddr @vips dnat to ip daddr  # ip kube-ipvs vips: 1 element

IPv4 kube-ipvs classify
  ip daddr . meta l4proto . th dport vmap @services  # ip kube-ipvs services: 1 element

IPv4 kube-ipvs postrouting, type nat hook postrouting priority 95, policy accept
  meta mark & 0x4000 == 0x4000 meta mark set meta mark & 0xffffbfff masquerade fully-random
  ip saddr . ip daddr @local_endpoints masquerade  # ip kube-ipvs local_endpoints: 0 elements

IPv4 kube-ipvs from_pods

IPv4 kube-ipvs in_ranges

IPv4 kube-ipvs ranges_192.0.2.10_tcp_80
  ip saddr != 10.0.0.0/8 ip saddr != 203.0.113.0/24 drop

IPv4 kube-ipvs svc_absent
  fib saddr type != local drop
  jump svc_mark

IPv4 kube-ipvs svc_mark
  ip saddr != 127.0.0.0/8 ct status & confirmed != confirmed meta mark set meta mark | 0x4000

IPv4 kube-ipvs svc_cluster
  ip saddr != 10.244.0.0/16 jump svc_mark

IPv4 kube-ipvs svc_keep

IPv4 kube-ipvs svc_local
  fib saddr type local jump svc_mark

IPv4 kube-ipvs svc_mark_192.0.2.10_tcp_80
  jump ranges_192.0.2.10_tcp_80
  jump svc_mark
)";

TEST_CASE("rules of nf_tables: chains as a packet meets them, those of single Services too") {
  NftHost host;
  host.program();
  CHECK(host.text() == kListing);
  CHECK(host.text({}) == std::string(kListing) + "\nIPv6 kube-ipvs: nothing of ours\n");
  CHECK(host.text({.chain = "svc_cluster"}) ==
        "IPv4 kube-ipvs svc_cluster\n  ip saddr != 10.244.0.0/16 jump svc_mark\n");
  CHECK(host.text({.table = Table::kube_ipvs}) == host.text({}));
  CHECK(host.text({.family = Family::ipv4, .table = Table::nat}) == "IPv4 nat: nothing of ours\n");
}

TEST_CASE("rules of nf_tables: nothing is wrong with those of any options") {
  for (const bool all : {false, true})
    for (const bool ping : {false, true})
      for (const bool ranges : {false, true})
        for (const auto& detector : {LocalDetector(), LocalDetector(BridgeInterface{"cni0"}),
                                     LocalDetector(InterfacePrefix{"veth"}),
                                     LocalDetector(*IpPrefix::parse("10.244.0.0/16"))}) {
          NftHost host;
          RuleParameters parameters{.masquerade_mark = 0x100,
                                    .masquerade_all = all,
                                    .detector = detector,
                                    .vip_ping = ping,
                                    .non_empty = {}};
          if (ranges) {
            parameters.non_empty = {SetId::nft_source_ranges, SetId::nft_in_cluster,
                                    SetId::nft_on_links};
            parameters.own_pods = IpPrefix::parse("10.244.1.0/24");
          }
          host.program(parameters);
          const auto text = host.text();
          INFO(text);
          CHECK_FALSE(tells(text, "NOT"));
        }
}

TEST_CASE("rules of nf_tables: they are ours whether they settle destinations or not yet") {
  NftHost host;
  auto parameters = NftHost::usual();
  parameters.keep_destinations = false;
  host.program(parameters);
  CHECK_FALSE(tells(host.text(), "dnat to"));
  CHECK_FALSE(tells(host.text(), "NOT OURS"));
  host.program();
  CHECK(host.text() == kListing);
}

TEST_CASE("rules of nf_tables: what is foreign, or has a counter") {
  NftHost host;
  host.program();
  SECTION("a rule of another, with a counter: then there are columns") {
    auto expressions = verdict_alone(NftVerdictCode::accept);
    expressions.insert(expressions.begin(), netlink::NftCounter{.bytes = 720, .packets = 12});
    host.add_rule("to_vip", expressions);
    CHECK(tells(host.text(), "        12          720  accept  # NOT OURS\n"));
    CHECK(tells(host.text(), "         -            -  ct state new reject\n"));
    CHECK_FALSE(tells(host.text(), "-  drop"));
    const auto chains = host.document()["chains"];
    const auto to_vip =
        std::ranges::find_if(chains, [](const auto& one) { return one["chain"] == "to_vip"; });
    CHECK((*to_vip)["rules"][3]["packets"] == 12);
    CHECK((*to_vip)["rules"][3]["state"] == "foreign");
    CHECK((*to_vip)["rules"][2]["state"] == "ours");
    CHECK_FALSE((*to_vip)["rules"][2].contains("packets"));
    // Without a daemon only what others' chains and sets are is known.
    auto reading = host.read();
    reading.settings.clear();
    CHECK_FALSE(tells(rules_text(reading, {}), "NOT OURS"));
  }
  SECTION("rules of other settings than the daemon has now") {
    host.settings.masquerade_mark = 0x100;
    CHECK(tells(host.text({.chain = "svc_mark"}), "meta mark | 0x4000  # NOT OURS\n"));
    CHECK_FALSE(tells(host.text({.chain = "svc_cluster"}), "NOT OURS"));
    host.settings.detector = *IpPrefix::parse("10.245.0.0/16");
    CHECK(tells(host.text({.chain = "svc_cluster"}), "jump svc_mark  # NOT OURS\n"));
  }
  SECTION("ranges that the set of the chain does not have") {
    host.add_rule("ranges_192.0.2.10_tcp_80", verdict_alone(NftVerdictCode::accept));
    CHECK(tells(host.text(),
                "  ip saddr != 10.0.0.0/8 ip saddr != 203.0.113.0/24 drop\n"
                "  accept  # NOT OURS\n"));
  }
  SECTION("the table is dormant") {
    host.kernel.set_flags(host.key, {.dormant = true});
    CHECK(tells(host.text(), "policy accept: NOT CALLED, its table is dormant\n"));
    CHECK(host.document()["chains"][0]["dormant"] == true);
  }
  SECTION("a chain is called elsewhere, with another policy") {
    host.meddle({netlink::NftFlushChain{host.key, "postrouting"},
                 netlink::NftDeleteChain{host.key, "postrouting"},
                 netlink::NftAddChain{host.key,
                                      {.name = "postrouting",
                                       .base = netlink::NftBase{.type = "filter",
                                                                .hook = netlink::NftHook::forward,
                                                                .priority = 7,
                                                                .accepts = false}}}});
    CHECK(tells(host.text(),
                "IPv4 kube-ipvs postrouting, type filter hook forward priority 7, policy drop: "
                "NOT CALLED AS IT SHOULD BE: type nat hook postrouting priority 95, policy "
                "accept\n"));
    CHECK(host.document().dump().find(R"("wantedHook":"type nat hook postrouting priority 95")") !=
          std::string::npos);
  }
}

// Clears the screen, closes a bracket, forges a line.
const std::string kOdd = "x\x1b[2J\n}\nIPv4 \xe2\x80\xae\" ";

TEST_CASE("rules of nf_tables: chains, sets and rules of others in our table are told, escaped") {
  NftHost host;
  host.program();
  host.meddle({netlink::NftAddChain{host.key, {.name = kOdd, .base = {}}},
               netlink::NftAddSet{host.key, {.name = kOdd, .key_type = 7, .key_bytes = 4}}});
  host.add_rule(kOdd, verdict_alone(NftVerdictCode::drop));
  host.add_rule("output", verdict_alone(NftVerdictCode::jump, kOdd));
  host.add_rule("output", verdict_alone(NftVerdictCode::go_to, kOdd));
  host.add_rule("output", expressions_of({.in_interface = InInterfaceMatch{.name = "a\" drop"},
                                          .target = Verdict::return_},
                                         Family::ipv4));
  const auto document = host.document();
  CHECK(document["foreignSets"][0]["name"] == kOdd);
  const auto text = host.text();
  INFO(text);
  CHECK_FALSE(tells(text, "\x1b"));
  CHECK_FALSE(tells(text, "\xe2\x80\xae"));
  CHECK_FALSE(tells(text, "\n}\nIPv4"));
  CHECK(
      tells(host.text(), "IPv4 kube-ipvs x\\u001b[2J\\n}\\nIPv4 \\u202e\" : NOT OURS\n  drop  # "));
  CHECK(tells(host.text(), "IPv4 kube-ipvs set x\\u001b[2J\\n}\\nIPv4 \\u202e\" : NOT OURS\n"));
  CHECK(tells(text, "  jump x\\u001b[2J"));
  CHECK(tells(text, "  goto x\\u001b[2J"));
  CHECK(tells(text, "  iifname [a\\x22 drop] return  # NOT OURS\n"));
}

TEST_CASE("rules of nf_tables: of a table that somebody else made nothing is missed") {
  NftHost host;
  host.meddle({netlink::NftAddTable{host.key}});
  CHECK(host.text() == "IPv4 kube-ipvs: nothing of ours\n");
  host.meddle({netlink::NftAddChain{host.key, {.name = "mine", .base = {}}},
               netlink::NftAddSet{host.key, {.name = "names", .key_type = 7, .key_bytes = 4}}});
  CHECK(host.text() == "IPv4 kube-ipvs mine: NOT OURS\n\nIPv4 kube-ipvs set names: NOT OURS\n");
  // A set of our name and of another type is none of ours.
  host.meddle({netlink::NftAddSet{host.key, {.name = "vips", .key_type = 8, .key_bytes = 16}}});
  CHECK(tells(host.text(), "set vips: NOT OURS\n"));
}

TEST_CASE("rules of nf_tables: those of iptables are left over") {
  NftHost host;
  host.program();
  auto reading = host.read();
  const RuleParameters parameters{.non_empty = {SetId::cluster_ip}};
  for (const auto& rules : rules_for(Family::ipv4, parameters))
    reading.tables[{Family::ipv4, rules.table}] = test::whole_table(rules);
  const RuleChoice ipv4{.family = Family::ipv4};
  const auto text = rules_text(reading, {.choice = ipv4});
  CHECK(text.starts_with(kListing));
  CHECK(tells(text, "\nIPv4 nat KUBE-MARK-MASQ\n"));
  CHECK(tells(text, "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000  # LEFT OVER\n"));
  CHECK(tells(text, "-j KUBE-SERVICES  # LEFT OVER\n"));
  CHECK_FALSE(tells(text, "NOT OURS"));
  CHECK(rules_text(reading, {.choice = {.family = Family::ipv4, .table = Table::nat},
                             .form = RuleForm::save})
            .starts_with("*nat\n"));
}

}  // namespace
}  // namespace ipvsproxier::ctl
