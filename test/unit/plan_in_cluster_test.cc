// Services of external policy Local, as this node and its pods reach them (PlannerOptions'
// difference in_cluster_clients), with both packet filters.

#include <algorithm>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "proxier/plan/service_plan.h"
#include "proxier/plan/service_report.h"
#include "test/support/kernel_model.h"
#include "test/unit/in_cluster_options.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::e1;
using test::e2;
using test::in_cluster_options;
using test::iptables_options;
using test::Lines;
using test::planned;
using test::servers_of;
using test::starting;

Lines elements_in(const Lines& lines, const std::string& set) {
  return starting(lines, "element ip kube-ipvs " + set + " ");
}

TEST_CASE("policy Local: in-cluster clients go to the cluster IP, others to endpoints here alone") {
  const auto service = test::local_load_balancer();
  const auto verdicts = [](const char* of_external) {
    return Lines{std::string("element ip kube-ipvs services 10.0.0.1,tcp:30443,") + of_external,
                 "element ip kube-ipvs services 10.96.0.9,tcp:443,cluster",
                 std::string("element ip kube-ipvs services 192.0.2.10,tcp:443,") + of_external};
  };
  const Lines destinations{"element ip kube-ipvs in_cluster 10.0.0.1,tcp:30443,10.96.0.9:443",
                           "element ip kube-ipvs in_cluster 192.0.2.10,tcp:443,10.96.0.9:443"};
  const auto sorted = [](Lines lines) {
    std::ranges::sort(lines);
    return lines;
  };
  for (const bool here : {true, false}) {
    const auto lines =
        planned(service, here ? std::vector{e1(), e2()} : std::vector{e2()}, in_cluster_options());
    CHECK(sorted(elements_in(lines, "services")) == verdicts(here ? "local" : "absent"));
    CHECK(sorted(elements_in(lines, "in_cluster")) == destinations);
    const auto servers = servers_of(lines);
    const Lines local = here ? Lines{"10.244.0.3:8080"} : Lines{};
    CHECK(servers.at("192.0.2.10:443/TCP") == local);
    CHECK(servers.at("10.0.0.1:30443/TCP") == local);
    CHECK(servers.at("10.96.0.9:443/TCP").size() == (here ? 2 : 1));
  }
  // Nobody anywhere: all are refused.
  const auto none = planned(service, {}, in_cluster_options());
  CHECK(sorted(elements_in(none, "services")) == verdicts("local"));
  CHECK(sorted(elements_in(none, "in_cluster")) == destinations);
}

TEST_CASE("policy Local: without a range nothing of it where the internal policy is Local too") {
  auto service = test::local_load_balancer();
  const auto options = in_cluster_options();
  service.internal_policy_local = true;
  const auto lines = planned(service, {e2()}, options);
  CHECK(elements_in(lines, "in_cluster").empty());
  CHECK(servers_of(lines).at("192.0.2.10:443/TCP") == Lines{"10.244.1.4:8080"});
}

// Of the rules that are there because of such Services.
Lines rules_of(const DesiredState& state) {
  Lines lines;
  std::istringstream text(to_text(state));
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("rule") && line.find("KUBE-IN-CLUSTER") != std::string::npos)
      lines.push_back(line.substr(std::string("rule IPv4 ").size()));
  return lines;
}

TEST_CASE("policy Local with iptables: sets of the addresses, and a rule for each") {
  const auto service = test::local_load_balancer();
  const Lines in_cluster{"element KUBE-IN-CLUSTER 10.0.0.1,tcp:30443",
                         "element KUBE-IN-CLUSTER 192.0.2.10,tcp:443"};
  const Lines only{"element KUBE-IN-CLUSTER-ONLY 10.0.0.1,tcp:30443",
                   "element KUBE-IN-CLUSTER-ONLY 192.0.2.10,tcp:443"};
  for (const auto& endpoints :
       {std::vector{e1(), e2()}, std::vector{e2()}, std::vector<api::Endpoint>{}}) {
    const auto lines = planned(service, endpoints, iptables_options());
    const bool elsewhere_alone = endpoints == std::vector{e2()};
    CHECK(starting(lines, "element KUBE-IN-CLUSTER ") == in_cluster);
    CHECK(starting(lines, "element KUBE-IN-CLUSTER-ONLY ") == (elsewhere_alone ? only : Lines{}));
    const Lines local = endpoints.size() == 2 ? Lines{"10.244.0.3:8080"} : Lines{};
    CHECK(servers_of(lines).at("192.0.2.10:443/TCP") == local);
  }
  auto node = test::vector_node();
  node.pod_cidrs = {test::prefix("10.244.0.0/24")};
  const auto state = [&](const PlannerOptions& options) {
    const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e2()})});
    return plan(cluster, node, options).state;
  };
  auto options = iptables_options();
  CHECK(rules_of(state(options)) ==
        Lines{"filter -A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set "
              "KUBE-IN-CLUSTER-ONLY dst,dst -j DROP",
              "nat -A KUBE-SERVICES -m set --match-set KUBE-IN-CLUSTER dst,dst -j KUBE-IN-CLUSTER",
              "nat -A KUBE-IN-CLUSTER ! -s 10.244.0.0/16 -m addrtype ! --src-type LOCAL -j RETURN",
              "nat -A KUBE-IN-CLUSTER ! -s 10.244.0.0/24 -m addrtype ! --src-type LOCAL "
              "-m set ! --match-set KUBE-IPVS-IPS dst -j RETURN",
              "nat -A KUBE-IN-CLUSTER -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ",
              "nat -A KUBE-IN-CLUSTER -d 10.0.0.1/32 -p tcp -m tcp --dport 30443 -j DNAT "
              "--to-destination 10.96.0.9:443",
              "nat -A KUBE-IN-CLUSTER -d 192.0.2.10/32 -p tcp -m tcp --dport 443 -j DNAT "
              "--to-destination 10.96.0.9:443"});
  const auto has = [&](const std::string& rule) {
    const auto rules = rules_of(state(options));
    return std::ranges::find(rules, "nat -A KUBE-IN-CLUSTER " + rule) != rules.end();
  };
  options.cluster_cidrs.clear();
  CHECK(has("-m addrtype ! --src-type LOCAL -j RETURN"));
  CHECK(has("-j KUBE-MARK-MASQ"));
  options.detect_local = DetectLocalMode::bridge_interface;
  options.bridge_interface = "cni0";
  CHECK(has("! -i cni0 -m addrtype ! --src-type LOCAL -j RETURN"));
  CHECK(has("-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ"));
  options.masquerade_all = true;
  CHECK(has("-j KUBE-MARK-MASQ"));
  options.differences.in_cluster_clients = false;
  CHECK(rules_of(state(options)).empty());
}

TEST_CASE("policy Local with iptables: clients outside the source ranges stay for the filter") {
  auto service = test::local_load_balancer();
  service.source_ranges = {test::prefix("203.0.113.0/24")};
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e2()})});
  const auto rules = rules_of(plan(cluster, test::vector_node(), iptables_options()).state);
  const auto at = [&](const std::string& rule) {
    return std::ranges::find(rules, "nat -A KUBE-IN-CLUSTER " + rule) - rules.begin();
  };
  const auto count = static_cast<std::ptrdiff_t>(rules.size());
  const auto of_node =
      at("-m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -m addrtype --src-type LOCAL -m set ! "
         "--match-set KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,dst -j RETURN");
  const auto of_pods =
      at("-m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -m addrtype ! --src-type LOCAL -m set "
         "! --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN");
  const auto marks = at("-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ");
  CHECK(of_node < marks);
  CHECK(of_pods < marks);
  CHECK(marks < count);
}

TEST_CASE("policy Local with iptables: one Service takes a bounded number of rules") {
  auto service = test::local_load_balancer();
  for (int i = 0; i < 99; ++i)
    service.external_ips.push_back(test::ip("198.51.100." + std::to_string(i)));
  for (std::uint16_t i = 1; i < 12; ++i) {
    auto port = service.ports.front();
    port.name = "p" + std::to_string(i);
    port.port = static_cast<std::uint16_t>(1000 + i);
    port.node_port = 0;
    service.ports.push_back(port);
  }
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1(), e2()})});
  const auto result = plan(cluster, test::vector_node(), iptables_options());
  const auto& entries = result.state.rules.at(netlink::Family::ipv4).in_cluster;
  CHECK(entries.size() == 10 * 100 + 1);
  REQUIRE(result.problems.size() == 1);
  CHECK(result.problems.front().message.starts_with("has more than 1024 "));
  CHECK(plan(cluster, test::vector_node(), in_cluster_options()).problems.empty());
}

TEST_CASE("policy Local with iptables: a node port takes a rule for each address of the node") {
  auto service = test::local_load_balancer();
  for (std::uint16_t i = 1; i < 80; ++i) {
    auto port = service.ports.front();
    port.name = "p" + std::to_string(i);
    port.port = static_cast<std::uint16_t>(1000 + i);
    port.node_port = static_cast<std::uint16_t>(31000 + i);
    service.ports.push_back(port);
  }
  auto node = test::vector_node();
  for (int i = 10; i < 40; ++i)
    node.addresses.push_back({"eth0", test::ip("10.0.0." + std::to_string(i)), 24});
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1(), e2()})});
  const auto result = plan(cluster, node, iptables_options());
  const auto entries = result.state.rules.at(netlink::Family::ipv4).in_cluster.size();
  CHECK(entries > 1024 / 2);
  CHECK(entries <= 1024);
  REQUIRE(result.problems.size() == 1);
  CHECK(result.problems.front().message.starts_with("has more than 1024 "));
}

std::size_t entries_of(const Planner& planner) {
  return planner.desired().rules.at(netlink::Family::ipv4).in_cluster.size();
}

// A kernel without an extension is met before a rule is: one such rule costs its whole table.
TEST_CASE("policy Local with iptables: what the kernel cannot send on is served as today") {
  auto service = test::local_load_balancer();
  auto port = service.ports.front();
  port.name = "s";
  port.protocol = netlink::Protocol::sctp;
  service.ports.push_back(port);
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e2()})});
  auto today = iptables_options();
  today.differences.in_cluster_clients = false;
  const auto before = plan(cluster, test::vector_node(), today).state;

  Planner planner(iptables_options());
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  CHECK(entries_of(planner) == 4);
  CHECK(planner.problems().empty());
  const auto ipv4 = netlink::Family::ipv4;
  const auto again = planner.set_untranslated(ipv4, {netlink::Protocol::sctp}, cluster);
  CHECK(again == std::set{service.name});
  planner.update(again, cluster);
  CHECK(entries_of(planner) == 2);
  const netlink::VirtualServiceKey vip{test::ip("192.0.2.10"), netlink::Protocol::sctp, 443};
  CHECK(planner.desired().services.at(vip) == before.services.at(vip));
  REQUIRE(planner.problems().size() == 1);
  CHECK(planner.problems().front().object == "Services");
  CHECK(planner.problems().front().message.find("cannot send their packets on") !=
        std::string::npos);
  using enum netlink::Protocol;
  planner.update(planner.set_untranslated(ipv4, {tcp, udp, sctp}, cluster), cluster);
  CHECK(to_text(planner.desired()) == to_text(before));
  planner.update(planner.set_untranslated(ipv4, {}, cluster), cluster);
  CHECK(entries_of(planner) == 4);
  CHECK(planner.problems().empty());
}

// The policy of the spec is Cluster then.
TEST_CASE(
    "policy Local by an annotation with iptables: what the kernel cannot send on is given up") {
  auto service = test::local_load_balancer();
  service.external_policy_local = false;
  service.health_check_node_port = 0;
  service.annotations = {{"kube-router.io/service.local", ""}};
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e2()})});
  auto options = iptables_options();
  options.differences.service_annotations = true;
  options.in_cluster_ranges = {test::prefix("240.0.0.0/4")};
  Planner planner(options);
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  REQUIRE(entries_of(planner) > 0);
  const std::set tcp{netlink::Protocol::tcp};
  planner.update(planner.set_untranslated(netlink::Family::ipv4, tcp, cluster), cluster);
  CHECK(entries_of(planner) == 0);
  planner.update(planner.set_untranslated(netlink::Family::ipv4, {}, cluster), cluster);
  CHECK(entries_of(planner) > 0);
}

// Of `rules` addresses each, 1,000 at most.
model::ClusterState many_local_services(const std::string& ns, int count, int rules, int first) {
  model::ClusterState cluster;
  for (int i = 0; i < count; ++i) {
    auto service = test::local_load_balancer();
    const auto number = first + i;
    service.name = {ns, "s" + std::to_string(number)};
    service.creation_time = 1000 + number;
    service.cluster_ips = {test::ip("10.97." + std::to_string(number) + ".1")};
    service.load_balancer_ips.clear();
    service.health_check_node_port = 0;
    service.ports.front().node_port = 0;
    for (int j = 0; j < rules; ++j)
      service.external_ips.push_back(test::ip("100." + std::to_string(64 + number / 64) + "." +
                                              std::to_string(number % 64 * 4 + j / 256) + "." +
                                              std::to_string(j % 256)));
    cluster.services.emplace(service.name, service);
  }
  return cluster;
}

TEST_CASE("policy Local with iptables: a namespace with many Services pushes nobody out",
          "[slow]") {
  constexpr int kEach = 1000;
  auto cluster = many_local_services("greedy", 30, kEach, 0);
  Planner planner(iptables_options());
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  CHECK(entries_of(planner) == 16 * kEach);
  CHECK(planner.problems().size() == 14);
  // Those that come later and ask for little get it, and the others less.
  auto modest = many_local_services("modest", 2, kEach, 50);
  modest.services.merge(many_local_services("small", 1, 3, 60).services);
  std::set<api::NamespacedName> names;
  for (const auto& [name, service] : modest.services) names.insert(name);
  auto all = cluster;
  all.services.insert(modest.services.begin(), modest.services.end());
  planner.update(names, all);
  CHECK(entries_of(planner) == 16 * kEach + 3);
  for (const auto& problem : planner.problems()) {
    CAPTURE(problem.object);
    CHECK(problem.object.starts_with("Service greedy/"));
    CHECK(problem.message.find("beyond the share of its namespace") != std::string::npos);
  }
  CHECK(planner.problems().size() == 16);
  // The order in which they came does not matter, and the older ones stay.
  const auto anew = plan(all, test::vector_node(), iptables_options());
  CHECK(to_text(anew.state) == to_text(planner.desired()));
  CHECK(planner.report_of({"greedy", "s0"}, all).front().external->outside_only);
  CHECK_FALSE(planner.report_of({"greedy", "s29"}, all).front().external->outside_only);
  // What is left goes to those that wait.
  planner.update(names, cluster);
  CHECK(entries_of(planner) == 16 * kEach);
  names.clear();
  for (int i = 0; i < 20; ++i) names.insert({"greedy", "s" + std::to_string(i)});
  for (const auto& name : names) cluster.services.erase(name);
  planner.update(names, cluster);
  CHECK(entries_of(planner) == 10 * kEach);
  CHECK(planner.problems().empty());
}

TEST_CASE("policy Local with iptables: without the option a set of its name is others' business") {
  auto options = iptables_options();
  options.differences.in_cluster_clients = false;
  const auto service = test::local_load_balancer();
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e2()})});
  const auto adds_a_service = [&](const DesiredState& desired) {
    auto kernel = test::KernelModel::empty_for(desired);
    kernel.state.sets.erase({netlink::Family::ipv4, ipset::SetId::in_cluster});
    const auto transaction = diff(desired, kernel.state);
    return std::ranges::any_of(transaction.phases, [](const Phase& phase) {
      return std::holds_alternative<std::vector<netlink::IpvsOp>>(phase.work);
    });
  };
  CHECK(adds_a_service(plan(cluster, test::vector_node(), options).state));
  CHECK_FALSE(adds_a_service(plan(cluster, test::vector_node(), iptables_options()).state));
}

// One address more, or less, is one commit of one table.
TEST_CASE("policy Local with iptables: a change of one address is one commit of nat") {
  const auto one = test::local_load_balancer();
  auto other = one;
  other.name.name = "other";
  other.cluster_ips = {test::ip("10.96.0.77")};
  other.load_balancer_ips = {test::ip("192.0.2.77")};
  for (auto& port : other.ports) port.node_port = 0;
  other.health_check_node_port = 0;
  const auto slice = [](const api::Service& service) {
    return test::slice_of(service, 8080, {e1(), e2()});
  };
  const auto state = [](const model::ClusterState& cluster) {
    return plan(cluster, test::vector_node(), iptables_options()).state;
  };
  const auto before = state(test::cluster_of({one, slice(one)}));
  const auto after = state(test::cluster_of({one, slice(one), other, slice(other)}));
  auto kernel = test::KernelModel::empty_for(before);
  kernel.apply(diff(before, kernel.state));
  const auto commits = [](const Transaction& transaction) {
    std::vector<std::string> tables;
    for (const auto& phase : transaction.phases)
      if (const auto* rules = std::get_if<std::vector<ipset::TableRules>>(&phase.work))
        for (const auto& table : *rules) tables.emplace_back(to_string(table.table));
    return tables;
  };
  const auto comes = diff(after, kernel.state);
  CHECK(commits(comes) == Lines{"nat"});
  kernel.apply(comes);
  CHECK(diff(after, kernel.state).empty());
  const auto goes = diff(before, kernel.state);
  CHECK(commits(goes) == Lines{"nat"});
  kernel.apply(goes);
  CHECK(diff(before, kernel.state).empty());
  CHECK(kernel.violations == 0);
}

}  // namespace
}  // namespace ipvsproxier::plan
