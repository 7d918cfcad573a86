#include "ipset/rules/nft_catalog.h"

#include <algorithm>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "ipset/nftables/foreign_steps.h"
#include "ipset/rules/packet_filter.h"

namespace ipvsproxier::ipset {
namespace {

// What was tried with real traffic on three kernels.
constexpr const char* kVerified = R"(chain svc_keep {
}
chain svc_mark {
	ip saddr != 127.0.0.0/8 ct status & confirmed != confirmed meta mark set meta mark | 0x4000
}
chain svc_cluster {
	ip saddr != 10.244.0.0/16 jump svc_mark
}
chain svc_local {
	fib saddr type local jump svc_mark
}
chain svc_absent {
	fib saddr type != local drop
	jump svc_mark
}
chain classify {
	ip daddr . meta l4proto . th dport vmap @services
}
chain in_ranges {
}
chain from_pods {
}
chain to_vip {
	icmp type echo-request return
	tcp dport @health_ports return
	ct state new reject
}
chain input {
	type filter hook input priority -5; policy accept;
	ct state established,related ip daddr . meta l4proto . th dport vmap @restricted
	ct state established,related accept
	ip daddr . meta l4proto . th dport vmap @services
	ip daddr @vips jump to_vip
}
chain prerouting {
	type nat hook prerouting priority -105; policy accept;
	ip daddr @vips dnat to ip daddr
}
chain output {
	type nat hook output priority -105; policy accept;
	jump classify
	ip daddr @vips dnat to ip daddr
}
chain postrouting {
	type nat hook postrouting priority 95; policy accept;
	meta mark & 0x4000 == 0x4000 meta mark set meta mark & 0xffffbfff masquerade fully-random
	ip saddr . ip daddr @local_endpoints masquerade
}
)";

RuleParameters restricted_with(LocalDetector detector) {
  RuleParameters parameters;
  parameters.detector = std::move(detector);
  parameters.non_empty = {SetId::nft_source_ranges};
  return parameters;
}

std::string_view to_string(ChainHook::Hook hook) {
  switch (hook) {
    case ChainHook::Hook::prerouting:
      return "prerouting";
    case ChainHook::Hook::input:
      return "input";
    case ChainHook::Hook::forward:
      return "forward";
    case ChainHook::Hook::output:
      return "output";
    case ChainHook::Hook::postrouting:
      return "postrouting";
  }
  return "";
}

// As `nft -f` takes them inside of "table ip kube-ipvs".
std::string text_of(const TableRules& table) {
  std::string result;
  for (const auto& chain : table.chains) {
    result += fmt::format("chain {} {{\n", chain.name);
    if (const auto hook = hook_of(chain.name))
      result += fmt::format("\ttype {} hook {} priority {}; policy accept;\n",
                            hook->type == ChainHook::Type::nat ? "nat" : "filter",
                            to_string(hook->hook), hook->priority);
    for (const auto& rule : chain.rules)
      result += fmt::format("\t{}\n", to_nft_string(rule, table.family));
    result += "}\n";
  }
  return result;
}

std::vector<std::string> rules_in(const TableRules& table, std::string_view chain) {
  std::vector<std::string> texts;
  for (const auto& rule : std::ranges::find(table.chains, chain, &Chain::name)->rules)
    texts.push_back(to_nft_string(rule, table.family));
  return texts;
}

TEST_CASE("nf_tables: the rules are those that were verified") {
  const auto parameters = restricted_with(*netlink::IpPrefix::parse("10.244.0.0/16"));
  CHECK(text_of(nft_rules(Family::ipv4, parameters)) == kVerified);
}

TEST_CASE("nf_tables: the rules of IPv6 are the same in its words") {
  std::string wanted = kVerified;
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (std::size_t at = 0; (at = wanted.find(from, at)) != std::string::npos; at += to.size())
      wanted.replace(at, from.size(), to);
  };
  replace("127.0.0.0/8", "::1");
  replace("10.244.0.0/16", "fd44::/64");
  for (const auto* word : {"ip saddr", "ip daddr"}) replace(word, "ip6" + std::string(word + 2));
  replace("icmp type", "icmpv6 type");
  const auto parameters = restricted_with(*netlink::IpPrefix::parse("fd44::/64"));
  CHECK(text_of(nft_rules(Family::ipv6, parameters)) == wanted);
}

TEST_CASE("nf_tables: our health server's port is open at addresses of load balancers") {
  const auto has_rule = [](const RuleParameters& parameters) {
    const auto rules = rules_in(nft_rules(Family::ipv6, parameters), "to_vip");
    REQUIRE(rules.size() > 1);
    CHECK(rules.back() == "ct state new reject");
    return rules[rules.size() - 2] == "tcp dport 10256 ip6 daddr @healthz return";
  };
  RuleParameters parameters{.healthz_port = 10256};
  CHECK_FALSE(has_rule(parameters));
  parameters.non_empty = {SetId::nft_healthz};
  CHECK(has_rule(parameters));
}

TEST_CASE("nf_tables: invalid packets of pods and of other endpoints are dropped") {
  using Texts = std::vector<std::string>;
  RuleParameters parameters{.detector = *netlink::IpPrefix::parse("10.244.0.0/16"),
                            .drop_invalid = true};
  const auto rules = [&](const char* chain, Family family = Family::ipv4) {
    return rules_in(nft_rules(family, parameters), chain);
  };
  const std::string of_pods = "ip saddr 10.244.0.0/16 meta l4proto tcp ct state invalid drop";
  const std::string of_others = "meta l4proto tcp ct state invalid ip saddr @other_endpoints drop";
  CHECK(rules("forward") == Texts{of_pods});
  CHECK(rules("input")[0] == "ct state established,related accept");
  CHECK(rules("input")[1] == of_pods);
  parameters.non_empty = {SetId::nft_other_endpoints};
  CHECK(rules("forward") == Texts{of_pods, of_others});
  CHECK(rules("input")[2] == of_others);
  CHECK(rules("forward", Family::ipv6) ==
        Texts{"meta l4proto tcp ct state invalid ip6 saddr @other_endpoints drop"});
  parameters.detector = BridgeInterface{"cni0"};
  CHECK(rules("forward")[0] == "iifname \"cni0\" meta l4proto tcp ct state invalid drop");
  // The chain is there only while it has a rule.
  parameters = {.drop_invalid = true};
  const auto chains = nft_rules(Family::ipv4, parameters).chains;
  CHECK(std::ranges::find(chains, "forward", &Chain::name) == chains.end());
}

TEST_CASE("nf_tables: pods are told by the detector") {
  const auto cluster = [](const RuleParameters& parameters) {
    return rules_in(nft_rules(Family::ipv4, parameters), "svc_cluster");
  };
  using Texts = std::vector<std::string>;
  CHECK(cluster({}) == Texts{"ip saddr @vips jump svc_mark"});
  CHECK(cluster({.vips_are_sources = false}) == Texts{"fib saddr type local jump svc_mark"});
  CHECK(cluster({.detector = *netlink::IpPrefix::parse("fd44::/64")}) == cluster({}));
  CHECK(cluster({.detector = BridgeInterface{"cni0"}}) ==
        Texts{"iifname != \"cni0\" jump svc_mark"});
  CHECK(cluster({.detector = BridgeInterface{"br+"}}) == Texts{"iifname != \"br*\" jump svc_mark"});
  CHECK(cluster({.detector = InterfacePrefix{"veth"}}) ==
        Texts{"iifname != \"veth*\" jump svc_mark"});
  CHECK(cluster({.masquerade_all = true, .detector = BridgeInterface{"cni0"}}) ==
        Texts{"jump svc_mark"});
}

TEST_CASE("nf_tables: the node and pods go to the cluster IP where a Service of policy Local is") {
  using Texts = std::vector<std::string>;
  const std::string send_on = "dnat ip to ip daddr . meta l4proto . th dport map @in_cluster";
  // As in legacy iptables, a client that chose a loopback source is left alone.
  const std::string send_own_on = "ip saddr != 127.0.0.0/8 " + send_on;
  const std::string settle = "ip daddr @vips dnat to ip daddr";
  const auto pods = *netlink::IpPrefix::parse("10.244.0.0/16");
  const auto own = *netlink::IpPrefix::parse("10.244.1.0/24");
  RuleParameters parameters{.detector = pods, .own_pods = own};
  const auto rules = [&](const char* chain) {
    return rules_in(nft_rules(Family::ipv4, parameters), chain);
  };
  // Without such a Service nothing of it is there.
  CHECK(rules("prerouting") == Texts{settle});
  CHECK(rules("svc_cluster") == Texts{"ip saddr != 10.244.0.0/16 jump svc_mark"});

  parameters.non_empty = {SetId::nft_in_cluster};
  CHECK(rules("prerouting") == Texts{"ip saddr 10.244.0.0/16 jump from_pods", settle});
  // At node ports, pods of other nodes are clients outside.
  const std::string far = "ip saddr != 10.244.1.0/24 ip daddr != @vips return";
  CHECK(rules("from_pods") == Texts{far, send_on});
  CHECK(rules("output") == Texts{"jump classify", send_own_on, settle});
  CHECK(rules("svc_cluster") == Texts{"ip saddr != 10.244.0.0/16 jump svc_mark"});
  // All pods are, where this node's are not known.
  parameters.own_pods.reset();
  CHECK(rules("from_pods") == Texts{"ip daddr != @vips return", send_on});
  parameters.non_empty.insert(SetId::nft_source_ranges);
  CHECK(rules("from_pods") == Texts{"ip daddr != @vips return", "jump in_ranges", send_on});
  CHECK(rules("in_ranges") == Texts{"ip daddr . meta l4proto . th dport vmap @restricted"});
  parameters.masquerade_all = true;
  CHECK(rules("svc_cluster") == Texts{"jump svc_mark"});

  // Those told by an interface, or by this node's range, are this node's.
  parameters = {.detector = BridgeInterface{"cni0"}, .non_empty = {SetId::nft_in_cluster}};
  CHECK(rules("prerouting") == Texts{"iifname \"cni0\" jump from_pods", settle});
  CHECK(rules("from_pods") == Texts{send_on});
  CHECK(rules("svc_cluster") == Texts{"iifname != \"cni0\" jump svc_mark"});
  parameters.detector = pods;
  parameters.own_pods = pods;
  CHECK(rules("from_pods") == Texts{send_on});
  CHECK(rules("svc_cluster") == Texts{"ip saddr != 10.244.0.0/16 jump svc_mark"});
  // Without a detector nobody but the node is known.
  parameters.detector = {};
  CHECK(rules("prerouting") == Texts{settle});
  CHECK(rules("output") == Texts{"jump classify", send_own_on, settle});
}

TEST_CASE("nf_tables: what parameters add and remove") {
  const auto count = [](const RuleParameters& parameters, const char* chain) {
    return rules_in(nft_rules(Family::ipv4, parameters), chain).size();
  };
  CHECK(count({}, "input") == 3);
  CHECK(count({.non_empty = {SetId::nft_source_ranges}}, "input") == 4);
  CHECK(count({}, "output") == 2);
  CHECK(count({}, "prerouting") == 1);
  const RuleParameters on_links{.non_empty = {SetId::nft_on_links}};
  for (const auto* chain : {"prerouting", "output"})
    CHECK(rules_in(nft_rules(Family::ipv4, on_links), chain).back() ==
          "dnat ip to ip daddr . meta l4proto . th dport map @on_links");
  CHECK(count({.keep_destinations = false, .non_empty = {SetId::nft_on_links}}, "prerouting") == 0);
  CHECK(count({.keep_destinations = false}, "prerouting") == 0);
  CHECK(count({.keep_destinations = false}, "output") == 1);
  CHECK(keeps_destinations(nft_rules(Family::ipv4, {})));
  CHECK_FALSE(keeps_destinations(nft_rules(Family::ipv4, {.keep_destinations = false})));
  CHECK(count({.vip_ping = true}, "to_vip") == 3);
  CHECK(count({.vip_ping = false}, "to_vip") == 2);
  const auto marked = rules_in(nft_rules(Family::ipv4, {.masquerade_mark = 0x8}), "svc_mark");
  CHECK(marked.back().ends_with(" meta mark set meta mark | 0x8"));
}

TEST_CASE("nf_tables: verdicts and jumps go to chains that exist, the kernel calls four") {
  for (const auto family : netlink::kFamilies) {
    const auto table = nft_rules(family, {});
    const auto exists = [&](std::string_view chain) {
      return std::ranges::find(table.chains, chain, &Chain::name) != table.chains.end();
    };
    for (const auto verdict : kServiceVerdicts) CHECK(exists(chain_of(verdict)));
    int called = 0;
    for (const auto& chain : table.chains) {
      called += hook_of(chain.name) ? 1 : 0;
      for (const auto& rule : chain.rules)
        if (const auto* jump = std::get_if<JumpTarget>(&rule.target)) CHECK(exists(jump->chain));
    }
    CHECK(called == 4);
    CHECK_FALSE(hook_of("svc_mark"));
  }
}

TEST_CASE("each packet filter has its sets and tables") {
  CHECK(sets_of(PacketFilter::iptables).size() == 19);
  CHECK(sets_of(PacketFilter::nftables).size() == 10);
  for (const auto filter : {PacketFilter::iptables, PacketFilter::nftables}) {
    CHECK(sets_of(filter).back() == vip_set(filter));
    const auto rules = rules_for(filter, Family::ipv4, {});
    REQUIRE(rules.size() == tables_of(filter).size());
    for (std::size_t i = 0; i < rules.size(); ++i) CHECK(rules[i].table == tables_of(filter)[i]);
  }
  CHECK(set_name(SetId::nft_services, Family::ipv6) == "ip6 kube-ipvs services");
  CHECK(set_spec(SetId::nft_vips, Family::ipv4, 1 << 20).max_elements == kSetCapacity);
}

}  // namespace
}  // namespace ipvsproxier::ipset
