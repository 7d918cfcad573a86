#include "cmd/ipvsctl/rules/rule_listing.h"

#include <algorithm>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "ipset/rules/rule_catalog.h"
#include "test/reference_rules.h"
#include "test/support/whole_table.h"

namespace ipvsproxier::ctl {
namespace {

using namespace ipset;
using netlink::Family;
using netlink::IpPrefix;
using plan::TableKey;

constexpr TableKey kReadNat{Family::ipv4, Table::nat};
constexpr TableKey kReadFilter{Family::ipv4, Table::filter};

// A host whose rules are those of the parameters, with as many elements as 7 in each set of theirs.
RuleReading reading_of(const RuleParameters& parameters, Family family = Family::ipv4) {
  RuleReading reading;
  // What sets and rules tell is not among the daemon's settings.
  reading.settings[family] = parameters;
  reading.settings[family].non_empty.clear();
  reading.settings[family].out_filter.clear();
  for (const auto& rules : rules_for(family, parameters))
    reading.tables[{family, rules.table}] = test::whole_table(rules);
  for (const auto id : kSetIds)
    reading.sets[set_name(id, family)] = parameters.non_empty.contains(id) ? 7 : 0;
  return reading;
}

RuleParameters usual() {
  return {.detector = *IpPrefix::parse("10.244.0.0/16"),
          .non_empty = {SetId::cluster_ip, SetId::loop_back, SetId::ipvs_ips}};
}

// "KUBE-SERVICES: -j RETURN" of each rule in this state.
std::vector<std::string> rules_in(RuleState state, const RuleReading& reading) {
  std::vector<std::string> lines;
  for (const auto& chain : review_rules(reading, {}))
    for (const auto& rule : chain.rules)
      if (rule.state == state)
        lines.push_back(chain.name + ": " + to_string(rule.rule, chain.table.family));
  return lines;
}

bool is_quiet(const RuleReading& reading) {
  for (const auto& chain : review_rules(reading, {}))
    if (std::any_of(chain.rules.begin(), chain.rules.end(),
                    [](const auto& rule) { return rule.state != RuleState::ours; }))
      return false;
  return true;
}

using Lines = std::vector<std::string>;

TEST_CASE("rules: chains as a packet meets them, behind the built-in ones that lead there") {
  Lines names;
  for (const auto& chain : review_rules(reading_of(usual()), {}))
    names.push_back(std::string(to_string(chain.table.table)) + " " + chain.name);
  CHECK(names == Lines{"nat PREROUTING", "nat KUBE-SERVICES", "nat KUBE-MARK-MASQ",
                       "nat KUBE-NODE-PORT", "filter INPUT", "filter KUBE-IPVS-FILTER",
                       "filter KUBE-PROXY-FIREWALL", "filter KUBE-NODE-PORT", "filter FORWARD",
                       "filter KUBE-FORWARD", "nat OUTPUT", "filter OUTPUT",
                       "filter KUBE-IPVS-OUT-FILTER", "nat POSTROUTING", "nat KUBE-POSTROUTING",
                       "filter KUBE-SOURCE-RANGES-FIREWALL", "nat KUBE-LOAD-BALANCER"});
}

TEST_CASE("rules: nothing is wrong with those of any options") {
  CHECK(is_quiet(reading_of(usual())));
  for (const auto family : netlink::kFamilies)
    for (const bool all : {false, true})
      for (const bool ping : {false, true})
        for (const bool sources : {false, true})
          for (const auto& detector : {LocalDetector(), LocalDetector(BridgeInterface{"cni0"}),
                                       LocalDetector(InterfacePrefix{"veth"}),
                                       LocalDetector(*IpPrefix::parse("10.244.0.0/16")),
                                       LocalDetector(*IpPrefix::parse("fd00:244::/48"))}) {
            RuleParameters parameters{.masquerade_mark = 0x100,
                                      .masquerade_all = all,
                                      .detector = detector,
                                      .vip_ping = ping,
                                      .vips_are_sources = sources,
                                      .non_empty = {kSetIds.begin(), kSetIds.end()}};
            parameters.out_filter = {
                {*netlink::IpAddress::parse("10.96.0.1"), netlink::Protocol::udp, 53},
                {*netlink::IpAddress::parse("fd00:96::1"), netlink::Protocol::tcp, 80}};
            CHECK(is_quiet(reading_of(parameters, family)));
          }
  // What kube-proxy itself left.
  for (const auto& configuration : test::reference_configurations())
    CHECK(is_quiet(reading_of(configuration.parameters, configuration.family)));
}

TEST_CASE("rules: what is of others, in our chains and leading to them") {
  auto reading = reading_of(usual());
  auto& nat = reading.tables[kReadNat].chains;
  auto& services = nat["KUBE-SERVICES"];
  services.insert(services.begin(), Rule{.target = Verdict::drop});
  nat["KUBE-MARK-MASQ"].push_back({.target = ForeignTarget{"[match tcp 0]"}});
  nat["OUTPUT"].push_back({.comment = "mine", .target = JumpTarget{"KUBE-POSTROUTING"}});
  nat["OUTPUT"].push_back({.target = JumpTarget{"OTHER"}});
  const Lines foreign{"KUBE-SERVICES: -j DROP", "KUBE-MARK-MASQ: [match tcp 0]",
                      "OUTPUT: -m comment --comment mine -j KUBE-POSTROUTING"};
  CHECK(rules_in(RuleState::foreign, reading) == foreign);
  CHECK(rules_text(reading, {}).find("-A KUBE-SERVICES -j DROP  # NOT OURS\n") !=
        std::string::npos);
  // Without a daemon they are listed, and nothing is said of them.
  reading.settings.clear();
  CHECK(rules_in(RuleState::foreign, reading).empty());
  CHECK(rules_in(RuleState::ours, reading).empty());
  const auto text = rules_text(reading, {});
  CHECK(text.find("-A KUBE-SERVICES -j DROP\n") != std::string::npos);
  CHECK(text.find("NOT OURS") == std::string::npos);
}

TEST_CASE("rules: by the daemon's settings, whatever other rules there are") {
  auto reading = reading_of(usual());
  SECTION("another mark") {
    reading.settings[Family::ipv4].masquerade_mark = 0x100;
    CHECK(rules_text(reading, {.choice = {.chain = "KUBE-MARK-MASQ"}})
              .ends_with(" -j MARK --set-xmark 0x4000/0x4000  # NOT OURS\n"));
  }
  SECTION("other sources of pods") {
    reading.settings[Family::ipv4].detector = *IpPrefix::parse("10.245.0.0/16");
    const auto foreign = rules_in(RuleState::foreign, reading);
    REQUIRE(foreign.size() == 1);
    CHECK(foreign[0].find("! -s 10.244.0.0/16") != std::string::npos);
  }
  SECTION("a set without elements needs no rule") {
    reading.sets["KUBE-CLUSTER-IP"] = 0;
    CHECK(rules_in(RuleState::foreign, reading).size() == 2);
  }
}

TEST_CASE("rules: counters stand before the rule that they are of") {
  auto reading = reading_of(usual());
  reading.tables[kReadNat].counts["KUBE-MARK-MASQ"] = {RuleCount{.packets = 12, .bytes = 720}};
  CHECK(rules_text(reading, {.choice = {.chain = "KUBE-MARK-MASQ"}}) ==
        "IPv4 nat KUBE-MARK-MASQ\n"
        "        12          720  -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n");
  const auto document = nlohmann::json::parse(
      rules_text(reading, {.choice = {.chain = "KUBE-MARK-MASQ"}, .form = RuleForm::json}));
  const auto& chain = document["chains"][0];
  CHECK(chain["family"] == "IPv4");
  CHECK(chain["table"] == "nat");
  CHECK(chain["rules"][0]["packets"] == 12);
  CHECK(chain["rules"][0]["bytes"] == 720);
  CHECK(chain["rules"][0]["state"] == "ours");
  CHECK(rules_text(reading, {.choice = {.chain = "KUBE-MARK-MASQ"}, .form = RuleForm::save}) ==
        "*nat\n:KUBE-MARK-MASQ - [0:0]\n"
        "-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n");
  CHECK(rules_text(
            reading,
            {.choice = {.chain = "KUBE-MARK-MASQ"}, .form = RuleForm::save, .counters = true}) ==
        "*nat\n:KUBE-MARK-MASQ - [0:0]\n"
        "[12:720] -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT\n");
}

TEST_CASE("rules: documents name the sets; yaml says the same") {
  const auto reading = reading_of(usual());
  const RuleStyle style{.choice = {.chain = "KUBE-SERVICES"}, .form = RuleForm::json};
  const auto rules = nlohmann::json::parse(rules_text(reading, style))["chains"][0]["rules"];
  const auto& last = rules.back();
  CHECK(last["state"] == "ours");
  CHECK(last["sets"][0]["name"] == "KUBE-CLUSTER-IP");
  CHECK(last["sets"][0]["elementCount"] == 7);
  CHECK(rules_text(reading, {.choice = {.chain = "KUBE-SERVICES"}, .form = RuleForm::yaml})
            .starts_with("chains:\n"));
}

TEST_CASE("rules: save prints built-in chains first, the unknown as comment") {
  auto reading = reading_of(usual());
  auto& nat = reading.tables[kReadNat].chains;
  nat["KUBE-LOAD-BALANCER"].clear();
  nat["KUBE-NODE-PORT"].push_back({.target = ForeignTarget{"[match tcp 0]"}});
  const auto text = rules_text(reading, {.choice = {.table = Table::nat}, .form = RuleForm::save});
  CHECK(text.starts_with("*nat\n:KUBE-LOAD-BALANCER - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n"));
  CHECK(text.find("COMMIT\n") == text.size() - 7);
  CHECK(text.find("-A PREROUTING ") < text.find("-A OUTPUT "));
  CHECK(text.find("-A OUTPUT ") < text.find("-A POSTROUTING "));
  CHECK(text.find("-A POSTROUTING ") < text.find("-A KUBE-MARK-MASQ "));
  CHECK(text.find("-A KUBE-LOAD-BALANCER") == std::string::npos);
  CHECK(text.find("\n# -A KUBE-NODE-PORT [match tcp 0]\n") != std::string::npos);
}

TEST_CASE(
    "rules: tables without anything of ours are said to have nothing; a named chain is whole") {
  RuleReading reading;
  CHECK(rules_text(reading, {}) ==
        "IPv4 nat: nothing of ours\nIPv4 filter: nothing of ours\n"
        "IPv4 kube-ipvs: nothing of ours\n"
        "IPv6 nat: nothing of ours\nIPv6 filter: nothing of ours\n"
        "IPv6 kube-ipvs: nothing of ours\n");
  CHECK(rules_text(reading, {.choice = {.family = Family::ipv6, .table = Table::mangle}}) ==
        "IPv6 mangle: nothing of ours\n");
  CHECK(rules_text(reading, {.form = RuleForm::save}).empty());
  CHECK(nlohmann::json::parse(rules_text(reading, {.form = RuleForm::json}))["chains"].empty());
  auto& filter = reading.tables[kReadFilter];
  filter.policies["INPUT"] = Verdict::drop;
  filter.chains["INPUT"] = {{.target = JumpTarget{"OTHER"}}};
  filter.chains["OTHER"] = {{.target = Verdict::accept}};
  CHECK(review_rules(reading, {}).empty());
  CHECK(rules_text(reading, {.choice = {.chain = "INPUT"}}) ==
        "IPv4 filter INPUT, policy DROP\n         0            0  -A INPUT -j OTHER\n");
  CHECK(rules_text(reading, {.choice = {.chain = "OTHER"}}) ==
        "IPv4 filter OTHER\n         0            0  -A OTHER -j ACCEPT\n");
  CHECK(review_rules(reading, {.chain = "NOWHERE"}).empty());
}

}  // namespace
}  // namespace ipvsproxier::ctl
