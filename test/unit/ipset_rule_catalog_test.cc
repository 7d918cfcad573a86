#include "ipset/rules/rule_catalog.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "test/reference_rules.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Family;
using netlink::IpPrefix;
using test::printed_rules;

using Lines = std::vector<std::string>;

Lines chain(Family family, const RuleParameters& parameters, const std::string& table,
            const std::string& name) {
  auto lines = printed_rules(rules_for(family, parameters))[table][name];
  for (auto& line : lines) line.erase(0, 4 + name.size());  // "-A NAME "
  return lines;
}

TEST_CASE("rules are those that kube-proxy leaves, line by line") {
  for (const auto& configuration : test::reference_configurations()) {
    CAPTURE(configuration.name, to_string(configuration.family));
    const auto expected = test::parse_saved_rules(test::reference_rules_text(configuration));
    const auto actual = printed_rules(rules_for(configuration.family, configuration.parameters));
    CHECK(expected.size() == 2);
    CHECK(actual.at("nat") == expected.at("nat"));
    for (const auto& [name, lines] : expected.at("filter")) {
      CAPTURE(name);
      CHECK(actual.at("filter").at(name) == lines);
    }
  }
}

TEST_CASE("every chain is there in the order in which it is made") {
  const auto names = [](const TableRules& table) {
    Lines result;
    for (const auto& one : table.chains) result.push_back(one.name);
    return result;
  };
  for (const auto family : netlink::kFamilies) {
    const auto tables = rules_for(family, {});
    REQUIRE(tables.size() == 2);
    CHECK(tables[0].table == Table::filter);
    CHECK(tables[1].table == Table::nat);
    CHECK(tables[0].family == family);
    CHECK(names(tables[0]) == Lines{"KUBE-FORWARD", "KUBE-NODE-PORT", "KUBE-PROXY-FIREWALL",
                                    "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-IPVS-FILTER",
                                    "KUBE-IPVS-OUT-FILTER"});
    CHECK(names(tables[1]) == Lines{"KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-NODE-PORT",
                                    "KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ"});
  }
}

const std::string kClusterIpText =
    "-m comment --comment \"Kubernetes service cluster ip + port for masquerade purpose\" "
    "-m set --match-set KUBE-CLUSTER-IP ";

TEST_CASE("traffic to cluster IPs is masqueraded by the way of telling local traffic") {
  RuleParameters parameters{.non_empty = {SetId::cluster_ip}};
  const auto rule = [&](const std::string& before, const std::string& lookup) {
    return Lines{"-s 127.0.0.0/8 -j RETURN",
                 before + kClusterIpText + lookup + " -j KUBE-MARK-MASQ",
                 "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
                 "-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT"};
  };
  const auto services = [&] { return chain(Family::ipv4, parameters, "nat", "KUBE-SERVICES"); };

  CHECK(services() == rule("", "src,dst"));
  parameters.detector = *IpPrefix::parse("10.1.0.0/16");
  CHECK(services() == rule("! -s 10.1.0.0/16 ", "dst,dst"));
  parameters.detector = *IpPrefix::parse("fd00::/64");
  CHECK(services() == rule("", "src,dst"));
  parameters.detector = BridgeInterface{"cbr0"};
  CHECK(services() == rule("! -i cbr0 ", "dst,dst"));
  parameters.detector = BridgeInterface{"cbr+"};
  CHECK(services() == rule("! -i cbr+ ", "dst,dst"));
  parameters.detector = InterfacePrefix{"veth"};
  CHECK(services() == rule("! -i veth+ ", "dst,dst"));
  parameters.masquerade_all = true;
  CHECK(services() == rule("", "dst,dst"));

  // VIPs to which routes lead.
  parameters.vips_are_sources = false;
  CHECK(services() == rule("", "dst,dst"));
  parameters.masquerade_all = false;
  CHECK(services() == rule("! -i veth+ ", "dst,dst"));
  parameters.detector = {};
  auto from_node = rule("", "dst,dst");
  const std::string target = " -j KUBE-MARK-MASQ";
  for (auto& line : from_node)
    if (const auto at = line.find(target); at != std::string::npos)
      line.insert(at, " -m addrtype --src-type LOCAL");
  CHECK(services() == from_node);
}

TEST_CASE("short paths: known connections leave first; all else is kube-proxy's") {
  RuleParameters parameters{
      .detector = *IpPrefix::parse("10.1.0.0/16"),
      .non_empty = {SetId::cluster_ip, SetId::load_balancer, SetId::external_ip_local}};
  const auto all = [&] {
    std::map<std::string, Lines> chains;
    for (const auto& table : rules_for(Family::ipv4, parameters))
      for (const auto& one : table.chains)
        chains[std::string(to_string(table.table)) + " " + one.name] =
            chain(Family::ipv4, parameters, std::string(to_string(table.table)), one.name);
    return chains;
  };
  auto wanted = all();
  auto& filter = wanted["filter KUBE-IPVS-FILTER"];
  filter.insert(filter.begin(), "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN");
  parameters.short_paths = true;
  CHECK(all() == wanted);
}

TEST_CASE("our chains tell who wrote them") {
  const auto written = [](const RuleParameters& parameters) {
    WholeTable filter;
    const auto tables = rules_for(Family::ipv4, parameters);
    for (const auto& one : tables.front().chains) filter.chains[one.name] = one.rules;
    return filter;
  };
  CHECK_FALSE(has_short_paths({}));
  CHECK_FALSE(has_short_paths(written({})));
  CHECK(has_short_paths(written({.short_paths = true})));
  CHECK(has_short_paths(written({.detector = BridgeInterface{"cbr0"},
                                 .vip_ping = false,
                                 .short_paths = true,
                                 .drop_invalid = true})));
}

TEST_CASE("our health server's port is open at addresses of load balancers") {
  RuleParameters parameters{.healthz_port = 10256};
  for (const bool short_paths : {true, false}) {
    parameters.short_paths = short_paths;
    parameters.non_empty = {};
    const auto without = chain(Family::ipv6, parameters, "filter", "KUBE-IPVS-FILTER");
    parameters.non_empty = {SetId::healthz};
    auto with = chain(Family::ipv6, parameters, "filter", "KUBE-IPVS-FILTER");
    REQUIRE(with.size() == without.size() + 1);
    CHECK(with[with.size() - 2] ==
          "-p tcp -m tcp --dport 10256 -m set --match-set KUBE-6-HEALTHZ dst -j RETURN");
    with.erase(with.end() - 2);
    CHECK(with == without);
  }
}

TEST_CASE("invalid packets of pods and of other endpoints are dropped after known connections") {
  RuleParameters parameters{.detector = *IpPrefix::parse("10.1.0.0/16"),
                            .short_paths = true,
                            .drop_invalid = true,
                            .non_empty = {SetId::other_endpoints}};
  const std::string invalid = "-p tcp -m conntrack --ctstate INVALID ";
  const std::string others = invalid + "-m set --match-set KUBE-OTHER-ENDPOINTS src -j DROP";
  for (const auto* name : {"KUBE-FORWARD", "KUBE-IPVS-FILTER"}) {
    const auto rules = [&](Family family = Family::ipv4) {
      return chain(family, parameters, "filter", name);
    };
    parameters.short_paths = true;
    parameters.detector = *IpPrefix::parse("10.1.0.0/16");
    const bool forward = std::string(name) == "KUBE-FORWARD";
    const std::size_t first = forward ? 2 : 1;
    CHECK(rules()[first - 1].find("RELATED,ESTABLISHED") != std::string::npos);
    CHECK(rules()[first] == "-s 10.1.0.0/16 " + invalid + "-j DROP");
    CHECK(rules()[first + 1] == others);
    CHECK(rules(Family::ipv6)[first] ==
          invalid + "-m set --match-set KUBE-6-OTHER-ENDPOINTS src -j DROP");
    parameters.short_paths = false;
    const std::size_t without = forward ? 2 : 0;
    CHECK(rules()[without] == "-s 10.1.0.0/16 " + invalid + "-j DROP");
    parameters.detector = InterfacePrefix{"veth"};
    CHECK(rules()[without] == "-i veth+ " + invalid + "-j DROP");
    parameters.detector = {};
    CHECK(rules()[without] == others);
  }
  parameters.drop_invalid = false;
  for (const auto& table : rules_for(Family::ipv4, parameters))
    for (const auto& one : table.chains)
      for (const auto& rule : one.rules)
        CHECK(to_string(rule, Family::ipv4).find("INVALID") == std::string::npos);
}

TEST_CASE(
    "short paths: forwarded packets leave the out filter before its rules, if there are some") {
  RuleParameters parameters{.short_paths = true};
  const auto out_filter = [&](Family family) {
    return chain(family, parameters, "filter", "KUBE-IPVS-OUT-FILTER");
  };
  CHECK(out_filter(Family::ipv4).empty());
  const auto excluded = [&](const char* address) {
    parameters.out_filter.insert({*netlink::IpAddress::parse(address), netlink::Protocol::tcp, 80});
  };
  excluded("192.0.2.1");
  CHECK(out_filter(Family::ipv4).size() == 1);
  CHECK(out_filter(Family::ipv6).empty());
  excluded("192.0.2.2");
  REQUIRE(out_filter(Family::ipv4).size() == 3);
  CHECK(out_filter(Family::ipv4)[0] == "-m addrtype ! --src-type LOCAL -j RETURN");
  parameters.short_paths = false;
  CHECK(out_filter(Family::ipv4).size() == 2);
}

// How many rules mention each set while only this set has elements.
TEST_CASE("each set that may be empty adds its rules only while it has elements") {
  const auto count = [](Family family, const std::set<SetId>& non_empty) {
    std::size_t rules = 0;
    for (const auto& table : rules_for(family, {.non_empty = non_empty}))
      for (const auto& one : table.chains) rules += one.rules.size();
    return rules;
  };
  const std::map<SetId, std::size_t> added = {
      {SetId::loop_back, 1},
      {SetId::cluster_ip, 2},
      {SetId::external_ip, 3},
      {SetId::external_ip_local, 2},
      {SetId::load_balancer, 2},
      {SetId::load_balancer_fw, 1},
      {SetId::load_balancer_local, 1},
      {SetId::load_balancer_source_ip, 1},
      {SetId::load_balancer_source_cidr, 1},
      {SetId::node_port_tcp, 1},
      {SetId::node_port_local_tcp, 1},
      {SetId::node_port_udp, 1},
      {SetId::node_port_local_udp, 1},
      {SetId::node_port_sctp_hash, 1},
      {SetId::node_port_local_sctp_hash, 1},
      {SetId::health_check_node_port, 0},
      {SetId::ipvs_ips, 0},
  };
  for (const auto family : netlink::kFamilies)
    for (const auto& [id, rules] : added) {
      CAPTURE(set_name(id, family));
      CHECK(count(family, {id}) - count(family, {}) == rules);
    }
  CHECK(count(Family::ipv4, {}) == 18);
}

TEST_CASE("node ports exempt local traffic before they mark, for each protocol") {
  const RuleParameters parameters{.non_empty = {SetId::node_port_tcp, SetId::node_port_local_tcp,
                                                SetId::node_port_udp, SetId::node_port_local_udp,
                                                SetId::node_port_sctp_hash,
                                                SetId::node_port_local_sctp_hash}};
  const auto comment = [](const std::string& text) {
    return " -m comment --comment \"Kubernetes nodeport " + text + "\" -m set --match-set KUBE-6-";
  };
  CHECK(chain(Family::ipv6, parameters, "nat", "KUBE-NODE-PORT") ==
        Lines{
            "-p tcp" + comment("TCP port with externalTrafficPolicy=local") +
                "NODE-PORT-LOCAL-TCP dst -j RETURN",
            "-p tcp" + comment("TCP port for masquerade purpose") +
                "NODE-PORT-TCP dst -j KUBE-MARK-MASQ",
            "-p udp" + comment("UDP port with externalTrafficPolicy=local") +
                "NODE-PORT-LOCAL-UDP dst -j RETURN",
            "-p udp" + comment("UDP port for masquerade purpose") +
                "NODE-PORT-UDP dst -j KUBE-MARK-MASQ",
            "-p sctp" +
                comment("SCTP port with externalTrafficPolicy=local with type \\'hash ip:port\\'") +
                "NODE-PORT-LOCAL-SCTP-HAS dst,dst -j RETURN",
            "-p sctp" + comment("SCTP port for masquerade purpose with type \\'hash ip:port\\'") +
                "NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ",
        });
}

TEST_CASE("external IPs: with local policy nothing is marked") {
  const auto lines = [](SetId set) {
    return chain(Family::ipv4, {.non_empty = {set}}, "nat", "KUBE-SERVICES");
  };
  const auto rule = [](const std::string& text, const std::string& set, const std::string& rest) {
    return "-m comment --comment \"Kubernetes service external ip + port " + text +
           "\" -m set --match-set " + set + " dst,dst " + rest;
  };
  const std::string bridged =
      "-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT";
  const std::string local = "-m addrtype --dst-type LOCAL -j ACCEPT";
  const std::string both = "for masquerade and filter purpose";
  const std::string only_local = "with externalTrafficPolicy=local";
  const auto external = lines(SetId::external_ip);
  REQUIRE(external.size() == 5);
  CHECK(external[1] == rule(both, "KUBE-EXTERNAL-IP", "-j KUBE-MARK-MASQ"));
  CHECK(external[2] == rule(both, "KUBE-EXTERNAL-IP", bridged));
  CHECK(external[3] == rule(both, "KUBE-EXTERNAL-IP", local));
  const auto with_local_policy = lines(SetId::external_ip_local);
  REQUIRE(with_local_policy.size() == 4);
  CHECK(with_local_policy[1] == rule(only_local, "KUBE-EXTERNAL-IP-LOCAL", bridged));
  CHECK(with_local_policy[2] == rule(only_local, "KUBE-EXTERNAL-IP-LOCAL", local));
}

TEST_CASE("source ranges return by network, then by this node, then drop") {
  const RuleParameters parameters{
      .non_empty = {SetId::load_balancer_source_cidr, SetId::load_balancer_source_ip}};
  const auto comment = [](const std::string& what) {
    return "-m comment --comment \"Kubernetes service load balancer ip + port + source " + what +
           " for packet filter purpose\" -m set --match-set ";
  };
  CHECK(chain(Family::ipv6, parameters, "filter", "KUBE-SOURCE-RANGES-FIREWALL") ==
        Lines{comment("cidr") + "KUBE-6-LOAD-BALANCER-SOURCE-CID dst,dst,src -j RETURN",
              comment("IP") + "KUBE-6-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN", "-j DROP"});
}

TEST_CASE("a ping to a virtual service is let through before the rejection, if wanted",
          "[item-18]") {
  for (const auto family : netlink::kFamilies) {
    const auto with = chain(family, {.vip_ping = true}, "filter", "KUBE-IPVS-FILTER");
    auto without = chain(family, {.vip_ping = false}, "filter", "KUBE-IPVS-FILTER");
    REQUIRE(without.size() == 6);
    without.insert(without.end() - 1, family == Family::ipv4
                                          ? "-p icmp -m icmp --icmp-type 8 -j RETURN"
                                          : "-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j RETURN");
    CHECK(with == without);
  }
}

TEST_CASE("the node is kept out of restricted services of its family only") {
  const auto address = [](const char* text) { return *netlink::IpAddress::parse(text); };
  const RuleParameters parameters{
      .out_filter = {{address("192.0.2.10"), netlink::Protocol::udp, 53},
                     {address("2001:db8::a"), netlink::Protocol::sctp, 9}}};
  CHECK(chain(Family::ipv4, parameters, "filter", "KUBE-IPVS-OUT-FILTER") ==
        Lines{"-s 192.0.2.10/32 -m ipvs --vproto 17 --vaddr 192.0.2.10 --vport 53 -j DROP"});
  CHECK(chain(Family::ipv6, parameters, "filter", "KUBE-IPVS-OUT-FILTER") ==
        Lines{"-s 2001:db8::a/128 -m ipvs --vproto 132 --vaddr 2001:db8::a --vport 9 -j DROP"});
  auto by_routes = parameters;
  by_routes.vips_are_sources = false;
  CHECK(chain(Family::ipv6, by_routes, "filter", "KUBE-IPVS-OUT-FILTER") ==
        Lines{"-m ipvs --vproto 132 --vaddr 2001:db8::a --vport 9 -m addrtype --src-type LOCAL "
              "-j DROP"});
}

}  // namespace
}  // namespace ipvsproxier::ipset
