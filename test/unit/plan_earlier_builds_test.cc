// A node with legacy iptables on which an earlier build sent clients within the cluster on: what it
// left is converted, and between any two phases nobody is refused.

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "ipset/rules/removal_catalog.h"
#include "proxier/plan/diff.h"
#include "proxier/plan/in_cluster.h"
#include "test/support/kernel_model.h"
#include "test/unit/in_cluster_options.h"
#include "test/unit/planned_lines.h"

namespace ipvsproxier::plan {
namespace {

using ipset::Rule;
using ipset::Table;
using netlink::Family;
using netlink::Protocol;
using netlink::VirtualServiceKey;
using test::e1;
using test::e2;
using test::ip;

const VirtualServiceKey kVip{ip("192.0.2.10"), Protocol::tcp, 443};
const VirtualServiceKey kGoal{ip("250.96.0.9"), Protocol::tcp, 443};

std::vector<Rule>& chain_of(ActualState& state, Table table, const std::string& name) {
  auto& chains = state.rules.at({Family::ipv4, table}).chains;
  return std::ranges::find(chains, name, &ipset::Chain::name)->rules;
}

bool has_earlier(const ActualState& state, Table table) {
  const auto& chains = state.rules.at({Family::ipv4, table}).chains;
  return std::ranges::any_of(chains, [](const ipset::Chain& chain) {
    return ipset::is_of_earlier_build(chain.name) ||
           std::ranges::any_of(chain.rules, [](const Rule& rule) {
             return ipset::is_of_earlier_build(rule, Family::ipv4);
           });
  });
}

// The redirection of clients within the cluster to an address of their own, which has all
// endpoints, and the drop of all others while no endpoint is here.
void add_earlier(ActualState& state) {
  auto& nat = state.rules.at({Family::ipv4, Table::nat});
  auto& services = chain_of(state, Table::nat, "KUBE-SERVICES");
  services.insert(
      services.begin() + 1,
      {.matches = {ipset::SetMatch{.set = "KUBE-IN-CLUSTER",
                                   .directions = {ipset::Direction::dst, ipset::Direction::dst}}},
       .target = ipset::JumpTarget{.chain = "KUBE-IN-CLUSTER"}});
  nat.chains.push_back(
      {.name = "KUBE-IN-CLUSTER",
       .rules = {{.destination = test::prefix("192.0.2.10/32"),
                  .protocol = Protocol::tcp,
                  .matches = {ipset::DestinationPortMatch{Protocol::tcp, 443, 443}},
                  .target = ipset::DestinationTarget{.address = kGoal.address, .port = 443}}}});
  auto& filter = chain_of(state, Table::filter, "KUBE-IPVS-FILTER");
  filter.insert(
      filter.begin(),
      {.matches = {ipset::ConntrackStateMatch{.is_new = true},
                   ipset::SetMatch{.set = "KUBE-IN-CLUSTER-ONLY",
                                   .directions = {ipset::Direction::dst, ipset::Direction::dst}}},
       .target = ipset::Verdict::drop});
  auto goal = state.services->at(kVip);
  goal.service.key = kGoal;
  goal.servers = RealServers{{.key = {e2().address, 8080}}};
  state.services->insert_or_assign(kGoal, goal);
  state.addresses->insert(Binding{.address = kGoal.address});
  state.sets.at({Family::ipv4, ipset::SetId::ipvs_ips})->insert(ipset::IpElement{kGoal.address});
  for (auto& [key, service] : *state.services)
    if (key.address == kVip.address) service.servers = RealServers{};
}

std::size_t servers_of(const ActualState& state, const VirtualServiceKey& key) {
  const auto found = state.services->find(key);
  if (found == state.services->end()) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(
      *found->second.servers, [](const auto& server) { return server.weight > 0; }));
}

TEST_CASE("earlier builds: endpoints are widened, then drops and redirections go, then addresses") {
  const auto service = test::local_load_balancer();
  auto options = test::in_cluster_options();
  options.packet_filter = ipset::PacketFilter::iptables;
  const auto state = [&](const std::vector<api::Endpoint>& endpoints) {
    return plan(test::cluster_of({service, test::slice_of(service, 8080, endpoints)}),
                test::vector_node(), options)
        .state;
  };
  auto before = state({e2()});
  auto kernel = test::KernelModel::empty_for(before);
  kernel.apply(diff(before, kernel.state));
  add_earlier(kernel.state);

  // Rules that change meanwhile keep what is there, and so do objects of which not all are known.
  auto after = GENERATE(false, true) ? before : state({e1(), e2()});
  after.complete = false;
  kernel.apply(diff(after, kernel.state));
  CHECK(has_earlier(kernel.state, Table::nat));
  CHECK(has_earlier(kernel.state, Table::filter));
  after.complete = true;
  const auto transaction = diff(after, kernel.state);
  for (const auto& phase : transaction.phases) {
    kernel.apply(phase);
    INFO("after phase \"" << phase.name << "\"");
    const bool drops = has_earlier(kernel.state, Table::filter);
    const bool redirects = has_earlier(kernel.state, Table::nat);
    CHECK((drops || servers_of(kernel.state, kVip) > 0));
    if (redirects) {
      CHECK(servers_of(kernel.state, kGoal) > 0);
      CHECK(kernel.state.addresses->contains(kGoal.address));
    }
  }
  CHECK_FALSE(has_earlier(kernel.state, Table::filter));
  CHECK_FALSE(has_earlier(kernel.state, Table::nat));
  CHECK_FALSE(kernel.state.addresses->contains(kGoal.address));
  CHECK(servers_of(kernel.state, kVip) == 1);
  kernel.finish_drains(after);
  kernel.apply(diff(after, kernel.state));
  CHECK_FALSE(kernel.state.services->contains(kGoal));
  CHECK(diff(after, kernel.state).empty());
}

TEST_CASE("earlier builds: nf_tables has the ways before it keeps destinations, if they lead on") {
  const auto service = test::local_load_balancer();
  auto options = test::in_cluster_options();
  options.packet_filter = ipset::PacketFilter::nftables;
  const auto state = plan(test::cluster_of({service, test::slice_of(service, 8080, {e2()})}),
                          test::vector_node(), options)
                         .state;
  auto kernel = test::KernelModel::empty_for(state);
  kernel.apply(diff(state, kernel.state));
  // All is in the other packet filter yet.
  for (auto& [key, elements] : kernel.state.sets) elements = ipset::ElementSet{};
  const auto way = in_cluster_way_of(state, kVip);
  REQUIRE(way);
  const auto is_late = [&] {
    const auto transaction = diff(state, kernel.state);
    return std::ranges::any_of(transaction.phases,
                               [](const Phase& phase) { return phase.name == "let in"; });
  };
  CHECK_FALSE(is_late());
  SECTION("nothing serves there") {
    kernel.state.services->at(*way).servers = RealServers{};
  }
  SECTION("it is not known what serves there") {
    kernel.state.services->at(*way).servers.reset();
  }
  SECTION("the address is not bound") {
    kernel.state.addresses->erase({way->address, 0});
  }
  CHECK(is_late());
}

TEST_CASE("earlier builds: rules for localhost are no longer there, and stay until all is known") {
  const auto cluster = test::cluster_of({test::web_service()});
  const auto before = plan(cluster, test::vector_node(), test::vector_options()).state;
  auto kernel = test::KernelModel::empty_for(before);
  kernel.apply(diff(before, kernel.state));
  auto& forward = chain_of(kernel.state, Table::filter, "KUBE-FORWARD");
  forward.insert(forward.begin(),
                 {.destination = test::prefix("169.254.107.1/32"), .target = ipset::Verdict::drop});
  auto partly = before;
  partly.complete = false;
  kernel.apply(diff(partly, kernel.state));
  CHECK(has_earlier(kernel.state, Table::filter));
  kernel.apply(diff(before, kernel.state));
  CHECK_FALSE(has_earlier(kernel.state, Table::filter));
  CHECK(diff(before, kernel.state).empty());
}

}  // namespace
}  // namespace ipvsproxier::plan
