// Properties over random clusters. A failure prints the seed; Catch's --rng-seed does not matter.

#include <catch2/catch.hpp>

#include "ipset/rules/nft_catalog.h"
#include "proxier/plan/diff.h"
#include "test/support/kernel_model.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::plan {
namespace {

constexpr std::uint32_t kClusters = 60;

// Options of a random cluster, for a packet filter that stays during a test.
PlannerOptions random_options(test::RandomCluster& random, ipset::PacketFilter filter) {
  auto options = random.options();
  options.packet_filter = filter;
  return options;
}

// The state that the kernel must be in when `desired` is reached.
void check_reached(const DesiredState& desired, const ActualState& actual) {
  CHECK(actual.addresses->addresses() == desired.addresses);
  REQUIRE(actual.services->size() == desired.services.size());
  for (const auto& [key, planned] : desired.services) {
    const auto& service = actual.services->at(key);
    CHECK(service.service == planned.service);
    std::vector<netlink::RealServer> servers;
    for (std::size_t i = 0; i < planned.servers.size(); ++i) servers.push_back(planned.server(i));
    CHECK(*service.servers == RealServers(std::move(servers)));
  }
  for (const auto& [key, elements] : desired.sets) {
    const auto& has = actual.sets.at(key);
    CHECK((has || ipset::is_made_late(key.id)));
    CHECK(has.value_or(ipset::ElementSet{}) == elements);
  }
  for (const auto& [family, parameters] : desired.rules)
    for (const auto& table : ipset::rules_for(desired.packet_filter, family, parameters))
      CHECK(ipset::holds(actual.rules.at({family, table.table}), table));
}

TEST_CASE("planning is deterministic", "[item-16]") {
  for (std::uint32_t seed = 0; seed < test::seeds(kClusters); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    const auto cluster = random.cluster(30);
    const auto node = random.node();
    const auto options = random.options();
    const auto first = plan(cluster, node, options);
    auto reordered = node;
    std::reverse(reordered.addresses.begin(), reordered.addresses.end());
    const auto second = plan(cluster, reordered, options);
    CHECK(first.state == second.state);
    CHECK(first.problems == second.problems);
    CHECK(to_text(first.state) == to_text(second.state));
  }
}

TEST_CASE("applying the difference reaches the target, and then there is none") {
  const auto filter = GENERATE(ipset::PacketFilter::iptables, ipset::PacketFilter::nftables);
  for (std::uint32_t seed = 0; seed < test::seeds(kClusters); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    auto cluster = random.cluster(30);
    const auto node = random.node();
    auto options = random_options(random, filter);
    auto kernel = test::KernelModel::empty_for(plan(cluster, node, options).state);
    for (int step = 0; step < 6; ++step) {
      const auto desired = plan(cluster, node, options).state;
      kernel.apply(diff(desired, kernel.state));
      kernel.finish_drains(desired);
      REQUIRE(kernel.violations == 0);
      check_reached(desired, kernel.state);
      CHECK(diff(desired, kernel.state).empty());
      random.change(cluster);
      if (step % 2 == 1) options = random_options(random, filter);
    }
  }
}

// What must be true of every reachable VIP between any two phases: its own set has it, and while
// anything is restricted or masqueraded by a set, the rule that consults the set is there.
void check_guarded_by_ip_sets(const DesiredState& desired, const ActualState& actual) {
  for (const auto& [key, service] : *actual.services) {
    const auto planned = desired.services.find(key);
    if (planned == desired.services.end() || planned->second.facet == Facet::node_port) continue;
    const auto family = key.address.family();
    const ipset::Element element = ipset::IpPortElement{key.address, key.protocol, key.port};
    bool guarded = false;
    for (auto id : {ipset::SetId::cluster_ip, ipset::SetId::external_ip,
                    ipset::SetId::external_ip_local, ipset::SetId::load_balancer})
      guarded = guarded || actual.sets.at({family, id})->contains(element);
    CHECK(guarded);
    const bool restricted =
        desired.sets.at({family, ipset::SetId::load_balancer_fw}).contains(element);
    if (restricted)
      CHECK(actual.sets.at({family, ipset::SetId::load_balancer_fw})->contains(element));
  }
}

// Rules as parameters of the sets that have elements: exactly the content for them, or more.
void check_rules_cover_sets(const ActualState& actual) {
  for (const auto& [key, elements] : actual.sets) {
    if (!elements || elements->empty()) continue;
    if (key.id != ipset::SetId::load_balancer_fw && key.id != ipset::SetId::cluster_ip &&
        key.id != ipset::SetId::node_port_tcp && key.id != ipset::SetId::external_ip)
      continue;
    const auto name = " " + ipset::set_name(key.id, key.family) + " ";
    bool consulted = false;
    for (auto table : {ipset::Table::filter, ipset::Table::nat})
      for (const auto& chain : actual.rules.at({key.family, table}).chains)
        for (const auto& rule : chain.rules) {
          const auto text = ipset::to_string(rule, key.family);
          const bool acts = text.find("-j RETURN") == std::string::npos &&
                            text.find("-j ACCEPT") == std::string::npos;
          consulted = consulted || (acts && text.find(name) != std::string::npos);
        }
    CHECK(consulted);
  }
}

// The same with nf_tables: the map has its verdict, its address is closed otherwise, and where its
// sources are restricted, its ranges are there.
void check_guarded_by_nft(const DesiredState& desired, const ActualState& actual) {
  for (const auto& [key, service] : *actual.services) {
    const auto planned = desired.services.find(key);
    if (planned == desired.services.end()) continue;
    const auto family = key.address.family();
    const auto elements_of = [&](ipset::SetId id) -> const ipset::ElementSet& {
      return *actual.sets.at({family, id});
    };
    int verdicts = 0;
    for (const auto& element : elements_of(ipset::SetId::nft_services)) {
      const auto& one = std::get<ipset::ServiceElement>(element);
      if (netlink::VirtualServiceKey{one.ip, one.protocol, one.port} == key) ++verdicts;
    }
    CHECK(verdicts == 1);
    for (const auto& range : desired.sets.at({family, ipset::SetId::nft_source_ranges})) {
      const auto& one = std::get<ipset::RangesElement>(range);
      if (netlink::VirtualServiceKey{one.ip, one.protocol, one.port} == key)
        CHECK(elements_of(ipset::SetId::nft_source_ranges).contains(range));
    }
  }
  for (const auto& [key, elements] : actual.sets)
    if (key.id == ipset::SetId::nft_source_ranges && elements && !elements->empty()) {
      const ipset::RuleParameters restricted{.non_empty = {key.id}};
      const auto wanted = ipset::nft_rules(key.family, restricted).chains;
      const auto first = [](const std::vector<ipset::Chain>& chains) {
        return std::ranges::find(chains, "input", &ipset::Chain::name)->rules.front();
      };
      CHECK(first(actual.rules.at({key.family, ipset::Table::kube_ipvs}).chains) == first(wanted));
    }
}

void check_guarded(const DesiredState& desired, const ActualState& actual) {
  if (desired.packet_filter == ipset::PacketFilter::nftables)
    return check_guarded_by_nft(desired, actual);
  check_guarded_by_ip_sets(desired, actual);
}

TEST_CASE("between phases every reachable VIP is guarded, and adds come before deletes",
          "[item-15]") {
  const auto filter = GENERATE(ipset::PacketFilter::iptables, ipset::PacketFilter::nftables);
  for (std::uint32_t seed = 0; seed < test::seeds(kClusters); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    auto cluster = random.cluster(20);
    const auto node = random.node();
    const auto options = random_options(random, filter);
    auto kernel = test::KernelModel::empty_for(plan(cluster, node, options).state);
    for (int step = 0; step < 4; ++step) {
      const auto desired = plan(cluster, node, options).state;
      bool removed = false;
      for (const auto& phase : diff(desired, kernel.state).phases) {
        INFO("before " << phase.name);
        const bool adds = phase.name.substr(0, 3) == "add";
        CHECK_FALSE((adds && removed));
        removed = removed || phase.name.substr(0, 6) == "remove";
        kernel.apply(phase);
        check_guarded(desired, kernel.state);
        check_rules_cover_sets(kernel.state);
      }
      random.change(cluster);
    }
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
