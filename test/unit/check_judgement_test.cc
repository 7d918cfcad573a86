#include "proxier/check/judgement.h"

#include <algorithm>
#include <set>
#include <string>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/check/kernel_config.h"
#include "proxier/check/needs.h"
#include "proxier/check/report.h"

namespace ipvsproxier::check {
namespace {

using netlink::Family;

// A node that speaks against nothing.
NodeFacts good_node(const Wanted& wanted = {}) {
  NodeFacts facts;
  facts.release = "6.1.0-test";
  facts.capabilities = {.net_admin = true, .net_raw = true, .sys_module = true};
  facts.has_ipv6 = true;
  facts.sctp_symbol = true;
  for (const auto& need : needs(wanted)) facts.modules[need.module] = {ModuleState::loadable, ""};
  return facts;
}

Level verdict(const NodeFacts& facts, const Wanted& wanted = {}) {
  return worst(judge(facts, wanted));
}

Finding about(const NodeFacts& facts, const std::string& what, const Wanted& wanted = {}) {
  const auto findings = judge(facts, wanted);
  const auto found = std::ranges::find_if(
      findings, [&](const Finding& one) { return one.about == what && one.level != Level::fine; });
  REQUIRE(found != findings.end());
  return *found;
}

TEST_CASE("a good node is fine: every field is named and nothing is against it") {
  const auto findings = judge(good_node(), {});
  CHECK(worst(findings) == Level::fine);
  CHECK(exit_status(Level::fine) == 0);
  CHECK(exit_status(Level::note) == 0);
  for (const auto* field :
       {"kernel", "modules", "capabilities", "sysctls", "ports", "IPVS", "packet filter"}) {
    CAPTURE(field);
    CHECK(std::ranges::count(findings, field, &Finding::about) == 1);
  }
}

// What each module's lack costs, in a cluster of both families of which nothing is known.
TEST_CASE("one module after the other is taken away") {
  std::size_t cannot = 0;
  for (const auto& need : needs({})) {
    for (const auto state : {ModuleState::missing, ModuleState::refused, ModuleState::unknown}) {
      auto facts = good_node();
      facts.modules[need.module] = {state, "why"};
      CAPTURE(need.module, static_cast<int>(state));
      const auto found = about(facts, "module " + need.module);
      CHECK(found.message.find("why") != std::string::npos);
      CHECK(verdict(facts) == found.level);
      const bool vital = need.level == Level::cannot && need.module != "nf_conntrack_netlink" &&
                         !need.module.starts_with("ip6") && state != ModuleState::unknown;
      CHECK(found.level == (vital ? Level::cannot : Level::limit));
      cannot += vital ? 1 : 0;
    }
  }
  CHECK(cannot >= 2 * 20);
}

TEST_CASE("what opens the port for health checks is missed by load balancers alone") {
  const auto told = [](const Wanted& wanted) {
    std::size_t count = 0;
    for (const auto& need : needs(wanted))
      if (need.module == "xt_tcpudp") {
        CHECK(need.level == Level::limit);
        CHECK(need.loss.ends_with("is programmed any more once one has a load-balancer address"));
        ++count;
      }
    return count;
  };
  CHECK(told({.as_kube_proxy = false}) == 2);
  CHECK(told({}) == 0);
}

TEST_CASE("without conntrack's netlink in-cluster clients of policy Local are not cut either") {
  const auto loss = [](const Wanted& wanted) {
    const auto all = needs(wanted);
    return std::ranges::find(all, "nf_conntrack_netlink", &ModuleNeed::module)->loss;
  };
  const std::string of_udp = "UDP flows go on to an endpoint that has left until they time out";
  CHECK(loss({}) == of_udp);
  using enum ipset::PacketFilter;
  CHECK(loss({.as_kube_proxy = false, .packet_filter = iptables}) == of_udp);
  CHECK(loss({.as_kube_proxy = false, .packet_filter = nftables}) ==
        "flows of UDP, and of this node and its pods to policy Local, go on to an endpoint that "
        "has left");
}

TEST_CASE("node ports on localhost need veth links of their own, with nf_tables") {
  const auto told = [](const Wanted& wanted) {
    std::set<std::string> modules;
    for (const auto& need : needs(wanted))
      if (need.module == "veth" || need.module == "xt_nat") {
        CHECK(need.level == Level::limit);
        CHECK(need.loss.find("node port is on localhost") != std::string::npos);
        modules.insert(need.module);
      }
    return modules;
  };
  CHECK(told({}).empty());
  CHECK(told({.localhost = true}).empty());
  CHECK(told({.localhost = true, .packet_filter = ipset::PacketFilter::nftables}) ==
        std::set<std::string>{"veth"});
  auto facts = good_node();
  facts.loop_is_other = "a link kube-local0 exists and is not ours";
  CHECK(about(facts, "nodePortAddresses: localhost").level == Level::limit);
}

TEST_CASE("the wanted scheduler is the one that counts") {
  Wanted wanted{.scheduler = "mh"};
  auto facts = good_node();
  CHECK(about(facts, "module ip_vs_mh", wanted).level == Level::limit);  // unknown
  facts.modules["ip_vs_mh"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts, wanted) == Level::cannot);
  CHECK(verdict(facts) == Level::fine);
}

TEST_CASE("a cluster without a family does not need what is for it") {
  auto facts = good_node();
  facts.modules["ip6_tables"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts) == Level::limit);
  CHECK(verdict(facts, {.families = {Family::ipv4}}) == Level::note);
  CHECK(verdict(facts, {.families = {Family::ipv4, Family::ipv6}}) == Level::cannot);
  facts = good_node();
  facts.modules["iptable_nat"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts) == Level::cannot);
  CHECK(verdict(facts, {.families = {Family::ipv6}}) == Level::note);
}

TEST_CASE("without IPv6 its modules do not matter") {
  auto facts = good_node();
  facts.has_ipv6 = false;
  facts.modules["ip6_tables"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts) == Level::limit);
  CHECK(verdict(facts, {.families = {Family::ipv4}}) == Level::note);
  CHECK(verdict(facts, {.families = {Family::ipv6}}) == Level::cannot);
  facts.has_ipv6 = true;
  facts.ipv6_disabled = true;
  CHECK(about(facts, "IPv6").message.find("disable_ipv6") != std::string::npos);
}

TEST_CASE("kube-ipvs0 is made even where addresses are bound by routes") {
  auto facts = good_node();
  facts.modules["dummy"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts) == Level::cannot);
  CHECK(verdict(facts, {.bind_by_routes = true}) == Level::cannot);
}

TEST_CASE("an older kernel's module for masquerading is as good") {
  auto facts = good_node();
  facts.modules["xt_MASQUERADE"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts) == Level::cannot);
  facts.modules["ipt_MASQUERADE"] = {ModuleState::loadable, ""};
  CHECK(verdict(facts) == Level::limit);  // IPv6
  facts.modules["ip6t_MASQUERADE"] = {ModuleState::built_in, ""};
  CHECK(verdict(facts) == Level::fine);
}

TEST_CASE("options inside IPVS, by the kernel's configuration") {
  const std::string all =
      "CONFIG_IP_VS=m\nCONFIG_IP_VS_PROTO_TCP=y\nCONFIG_IP_VS_PROTO_UDP=y\nCONFIG_IP_VS_NFCT=y\n"
      "CONFIG_IP_VS_IPV6=y\nCONFIG_IP_VS_PROTO_SCTP=y\n";
  const auto without = [&](const std::string& option) {
    auto facts = good_node();
    facts.sctp_symbol.reset();
    auto text = all;
    if (const auto at = text.find(option + "=y\n"); at != std::string::npos)
      text.erase(at, option.size() + 3);
    facts.config = parse_kernel_config(text, "/boot/config");
    return verdict(facts);
  };
  CHECK(without("nothing") == Level::fine);
  CHECK(without("CONFIG_IP_VS_PROTO_TCP") == Level::cannot);
  CHECK(without("CONFIG_IP_VS_PROTO_UDP") == Level::cannot);
  CHECK(without("CONFIG_IP_VS_NFCT") == Level::cannot);
  CHECK(without("CONFIG_IP_VS_IPV6") == Level::limit);
  CHECK(without("CONFIG_IP_VS_PROTO_SCTP") == Level::limit);
  auto facts = good_node();
  facts.sctp_symbol = false;
  CHECK(verdict(facts) == Level::limit);
  facts.sctp_symbol.reset();
  CHECK(about(facts, "SCTP").level == Level::note);
}

TEST_CASE("capabilities") {
  auto facts = good_node();
  facts.capabilities.net_raw = false;
  CHECK(verdict(facts) == Level::cannot);
  CHECK(about(facts, "capabilities").message.find("lacks CAP_NET_RAW:") != std::string::npos);
}

TEST_CASE("sysctls that cannot be set") {
  const auto with = [](SysctlFact fact) {
    auto facts = good_node();
    facts.sysctls = {std::move(fact)};
    return verdict(facts);
  };
  CHECK(with({{"net/ipv4/ip_forward", "1"}, "0", true}) == Level::fine);
  CHECK(with({{"net/ipv4/ip_forward", "1"}, "1", false}) == Level::fine);
  CHECK(with({{"net/ipv4/ip_forward", "1"}, "0", false}) == Level::cannot);
  CHECK(with({{"net/ipv4/vs/conntrack", "1"}, std::nullopt, true}) == Level::fine);
  CHECK(with({{"net/ipv4/vs/conntrack", "1"}, std::nullopt, false}) == Level::cannot);
  CHECK(with({{"net/ipv4/vs/expire_nodest_conn", "1"}, "0", false}) == Level::limit);
  CHECK(with({{"net/netfilter/nf_conntrack_max", "1", api::Severity::warning}, "0", false}) ==
        Level::note);
  // A larger limit is not to be lowered.
  const plan::Sysctl limit{"net/netfilter/nf_conntrack_max", "131072", api::Severity::warning,
                           true};
  CHECK(with({limit, "2000000", false}) == Level::fine);
  CHECK(with({limit, "65536", false}) == Level::note);
  auto facts = good_node();
  facts.modules["ip_vs"] = {ModuleState::loaded, ""};
  facts.sysctls = {{{"net/ipv4/vs/conntrack", "1"}, std::nullopt, true}};
  CHECK(about(facts, "sysctl net/ipv4/vs/conntrack").message.find("no such key") !=
        std::string::npos);
}

TEST_CASE("ports, other writers, the packet filter") {
  auto facts = good_node();
  facts.ports = {{"health server", "0.0.0.0:10256", "[::]:10256"}};
  CHECK(verdict(facts) == Level::limit);
  CHECK(verdict(facts, {.ports_are_vital = true}) == Level::cannot);
  facts = good_node();
  facts.writers = {{"dockerd", 4}};
  CHECK(verdict(facts) == Level::note);
  facts.writers = {{"kube-proxy", 7}};
  CHECK(about(facts, "process kube-proxy").message.find("process 7") != std::string::npos);
  CHECK(verdict(facts) == Level::limit);
  facts = good_node();
  facts.virtual_services = 3;
  CHECK(verdict(facts) == Level::note);
  CHECK(about(facts, "IPVS").message.find("all else stays") != std::string::npos);
  const Wanted as_kube_proxy{.keeps_foreign_services = false};
  CHECK(verdict(facts, as_kube_proxy) == Level::limit);
  CHECK(about(facts, "IPVS", as_kube_proxy).message ==
        "the kernel has 3 virtual services: what no Service asks for is removed, unless "
        "ipvs.excludeCIDRs names its address");
  facts.writers = {{"keepalived", 5}};
  CHECK(about(facts, "process keepalived").message.find("its virtual services stay") !=
        std::string::npos);
  CHECK(about(facts, "process keepalived", as_kube_proxy).message.find("removed") !=
        std::string::npos);
  facts.writers.clear();
  facts.daemon_runs = true;
  CHECK(verdict(facts) == Level::fine);
  facts = good_node();
  facts.drops = {{"legacy IPv4 table filter, chain INPUT", "its policy is DROP"}};
  CHECK(verdict(facts) == Level::limit);
  facts = good_node();
  facts.dummy_is_other = true;
  CHECK(verdict(facts) == Level::cannot);
  facts = good_node();
  facts.strict_links = {"eth0"};
  CHECK(about(facts, "rp_filter").level == Level::note);
}

TEST_CASE("a cluster without this node's Node") {
  auto facts = good_node();
  facts.no_node = "API server: no Node n1: no endpoint counts as one of this node";
  CHECK(verdict(facts) == Level::limit);
  CHECK(about(facts, "Node").message == facts.no_node);
  facts.has_no_nodes = true;
  CHECK(about(facts, "Node").level == Level::note);
}

TEST_CASE("Services that ask for addresses of other Nodes") {
  auto facts = good_node();
  facts.node_addresses = {{"shop/web", "192.0.2.1", "n2"}, {"shop/web", "192.0.2.2", "n3"}};
  CHECK(verdict(facts) == Level::limit);
  CHECK(about(facts, "Service shop/web").message.find("(192.0.2.1 of Node n2, 192.0.2.2 of") !=
        std::string::npos);
  CHECK(about(facts, "Service shop/web").remedy.find("servicelb") != std::string::npos);
  for (int i = 0; i < 20; ++i)
    facts.node_addresses.push_back({fmt::format("shop/web{}", i), "192.0.2.1", "n2"});
  CHECK(about(facts, "Services").message.starts_with("13 more"));
}

TEST_CASE("clients of a dead node are one note unless draining is bounded") {
  CHECK(about(good_node(), "--drain-timeout", {.bounds_drain = false}).level == Level::note);
}

TEST_CASE("a limit that belongs to the host's first network namespace is a note") {
  auto facts = good_node();
  facts.sysctls = {{.wanted = {.key = "net/netfilter/nf_conntrack_max", .value = "9"},
                    .value = "5",
                    .is_fixed = true}};
  const auto told = about(facts, "sysctl net/netfilter/nf_conntrack_max");
  CHECK(told.level == Level::note);
  CHECK(told.remedy.find("first network namespace") != std::string::npos);
  CHECK(told.remedy.find("--init-only") == std::string::npos);
}

TEST_CASE("an API server that does not answer a question") {
  auto facts = good_node();
  facts.api = {{"list services", ""}, {"watch services", ""}};
  CHECK(verdict(facts) == Level::fine);
  facts.api[1].error = "403 Forbidden";
  CHECK(about(facts, "API server").message == "watch services: 403 Forbidden");
  CHECK(verdict(facts) == Level::cannot);
}

TEST_CASE("the text has the worst first and the verdict last; names of others cannot act") {
  auto facts = good_node();
  facts.writers = {{"kube-vip\x1b[2J\nfine", 9}};
  facts.strict_links = {"eth0"};
  facts.modules["ip_vs_rr"] = {ModuleState::missing, "its file is not there"};
  const auto text = to_text(judge(facts, {}));
  CHECK(
      text.starts_with("cannot  module ip_vs_rr: is missing: its file is not there; without it no "
                       "Service is served\n"));
  CHECK(text.ends_with("ipvs-proxier cannot work on this node: 1 finding against it\n"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("process kube-vip\\u001b[2J\\nfine: ") != std::string::npos);
  CHECK(text.find("limit   process") < text.find("note    rp_filter"));
  CHECK(to_text(judge(good_node(), {})).ends_with("works on this node\n"));
}

TEST_CASE("a text of any length costs some lines") {
  auto facts = good_node();
  facts.strict_links.assign(100'000, std::string(200, 'x'));
  facts.unread = {std::string(10'000'000, 'y')};
  CHECK(to_text(judge(facts, {})).size() < 8000);
}

TEST_CASE("a remedy stands below its finding, once") {
  auto facts = good_node();
  const auto text_with = [&](const char* module, ModuleState state) {
    facts.modules[module] = {state, "why"};
    return to_text(judge(facts, {}));
  };
  text_with("ip_vs", ModuleState::missing);
  const auto text = text_with("ip_vs_rr", ModuleState::missing);
  const auto at = text.find("\n         install it: docs/check.md names packages");
  CHECK(at != std::string::npos);
  CHECK(text.find("install it", at + 20) == std::string::npos);
  CHECK(text_with("ip_vs", ModuleState::refused).find("\"ip_vs\" in /etc/modules-load.d") !=
        std::string::npos);
  CHECK(text_with("ip_vs", ModuleState::unknown).find("/lib/modules mounted") != std::string::npos);
}

TEST_CASE("JSON says the same") {
  auto facts = good_node();
  facts.modules["ip_vs"] = {ModuleState::refused, "a \xff\x1b"};
  const auto json = nlohmann::json::parse(to_json(judge(facts, {}), facts));
  CHECK(json.at("verdict") == "cannot");
  CHECK(json.at("status") == 2);
  CHECK(json.at("kernel") == "6.1.0-test");
  const auto& first = json.at("findings").at(0);
  CHECK(first.at("level") == "cannot");
  CHECK(first.at("about") == "module ip_vs");
  CHECK(first.at("remedy").get<std::string>().find("--init-only") != std::string::npos);
  const auto fine = nlohmann::json::parse(to_json(judge(good_node(), {}), good_node()));
  CHECK(fine.at("verdict") == "fine");
}

// A node whose kernel has nf_tables and no legacy iptables.
NodeFacts node_of_nft() {
  auto facts = good_node({.families = {}, .packet_filter = ipset::PacketFilter::nftables});
  for (const auto& need : needs({}))
    facts.modules.try_emplace(need.module, ModuleFact{ModuleState::missing, "why"});
  return facts;
}

TEST_CASE("a kernel without legacy iptables serves with nf_tables, unless iptables is asked for") {
  const Wanted nft{.families = {}, .packet_filter = ipset::PacketFilter::nftables};
  auto facts = node_of_nft();
  CHECK(verdict(facts) == Level::note);
  CHECK(about(facts, "nf_tables").message == "it will hold sets and rules: nf_tables works here");
  CHECK(verdict(facts, nft) == Level::fine);
  CHECK(verdict(facts, {.families = {}, .packet_filter = ipset::PacketFilter::iptables}) ==
        Level::cannot);
  facts.modules["nft_masq"] = {ModuleState::missing, "why"};
  CHECK(verdict(facts) == Level::cannot);
  CHECK(about(facts, "module ip_set").level == Level::cannot);  // told for iptables
}

TEST_CASE("nf_tables is taken where nothing needs legacy iptables") {
  auto facts = good_node({.families = {}, .packet_filter = ipset::PacketFilter::nftables});
  for (const auto& [name, fact] : good_node({}).modules) facts.modules.try_emplace(name, fact);
  CHECK(about(facts, "nf_tables").message.find("nf_tables works here") != std::string::npos);
  facts.packet_filters.only_iptables_accept = "chain FORWARD drops; add: a rule";
  const Wanted ours{.as_kube_proxy = false};
  for (const auto& [name, fact] : good_node(ours).modules) facts.modules.try_emplace(name, fact);
  CHECK(verdict(facts, ours) == Level::note);
  CHECK(about(facts, "legacy iptables", ours).message ==
        "it will hold sets and rules: a chain of this host drops what only rules of legacy "
        "iptables can accept");
  CHECK(std::ranges::count(judge(facts, ours),
                           "before --packet-filter=nftables: chain FORWARD drops; add: a rule",
                           &Finding::message) == 1);
  // Where nf_tables is asked for all the same.
  CHECK(verdict(facts, {.as_kube_proxy = false, .packet_filter = ipset::PacketFilter::nftables}) ==
        Level::limit);
  facts.packet_filters.has_nft_table = true;
  CHECK(about(facts, "nf_tables").message.find("our table of nf_tables is there") !=
        std::string::npos);
}

TEST_CASE("a lock of legacy iptables that cannot be opened: nf_tables, or nothing") {
  auto facts = good_node({.families = {}, .packet_filter = ipset::PacketFilter::nftables});
  for (const auto& [name, fact] : good_node({}).modules) facts.modules.try_emplace(name, fact);
  facts.packet_filters.has_our_iptables = true;
  facts.xtables_lock_fault = "open the xtables lock: Is a directory";
  CHECK(about(facts, "nf_tables").message.find("Is a directory") != std::string::npos);
  CHECK(verdict(facts) == Level::note);
  const Wanted iptables{.families = {}, .packet_filter = ipset::PacketFilter::iptables};
  CHECK(verdict(facts, iptables) == Level::cannot);
}

TEST_CASE("a table of our name that somebody else made: iptables, or nothing") {
  auto facts = good_node({.families = {}, .packet_filter = ipset::PacketFilter::nftables});
  for (const auto& [name, fact] : good_node({}).modules) facts.modules.try_emplace(name, fact);
  facts.packet_filters.has_foreign_nft_table = true;
  CHECK(about(facts, "table kube-ipvs of nf_tables").level == Level::note);
  CHECK(verdict(facts, {.families = {}, .packet_filter = ipset::PacketFilter::nftables}) ==
        Level::cannot);
}

TEST_CASE("nf_tables without its family of IPv4 is none") {
  auto facts = node_of_nft();
  facts.config = parse_kernel_config("CONFIG_IP_VS=m\nCONFIG_IP_VS_NFCT=y\nCONFIG_NF_TABLES=m\n",
                                     "/boot/config");
  CHECK(verdict(facts) == Level::cannot);
}

TEST_CASE("check: predecessors are named with what becomes of them") {
  auto facts = good_node();
  facts.has_kube_router = true;
  facts.has_kube_proxy_nft = true;
  CHECK(about(facts, "link kube-dummy-if").level == Level::note);
  CHECK(about(facts, "link kube-dummy-if").message.find("takes over") != std::string::npos);
  CHECK(about(facts, "nf_tables table kube-proxy").level == Level::note);
  CHECK(about(facts, "link kube-dummy-if", {.takes_over_kube_router = false}).level ==
        Level::limit);
  facts.writers = {{"kube-router", 7}};
  CHECK(about(facts, "process kube-router").message.find("--run-service-proxy=false") !=
        std::string::npos);
}

TEST_CASE("check: a program that listens at addresses of Services is named with its link") {
  auto facts = good_node();
  const auto left = [](const char* address) {
    return plan::LeftPorts{{*netlink::IpAddress::parse(address), netlink::Protocol::udp, 53, 53,
                            "legacy IPv4 table raw"},
                           "nodelocaldns"};
  };
  // No Service has such an address.
  facts.left = {left("169.254.20.10")};
  CHECK(verdict(facts) == Level::fine);
  facts.left.push_back(left("10.96.0.10"));
  const auto found = about(facts, "link nodelocaldns");
  CHECK(found.level == Level::limit);
  CHECK(found.message.find("10.96.0.10, and rules (NOTRACK, in legacy IPv4 table raw) keep packets "
                           "to 53/UDP there") != std::string::npos);
  CHECK(found.message.find("left to that program") != std::string::npos);
  CHECK(about(facts, "link nodelocaldns", {.leaves_untracked = false}).message.find("no answers") !=
        std::string::npos);
}

}  // namespace
}  // namespace ipvsproxier::check
