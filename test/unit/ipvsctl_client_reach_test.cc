// What `ipvsctl service` says of who is served by Services of external policy Local, and what
// becomes of such packets: random clusters, both packet filters, with the option
// --in-cluster-clients and without. A failure prints the seed.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "cmd/ipvsctl/explain/packet_walk.h"
#include "proxier/plan/service_report.h"
#include "test/support/cluster_builder.h"
#include "test/support/random_run.h"
#include "test/support/walked_cluster.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::Family;
using netlink::IpAddress;
using plan::Client;
using plan::ReachOutcome;

constexpr std::uint32_t kReachClusters = 60;

class ReachWorld {
 public:
  ReachWorld(test::WalkedCluster world, ipset::PacketFilter filter)
      : world_(std::move(world)),
        planner_(options_for(world_, filter)),
        reading_(test::reading_of(world_, filter)),
        host_(world_, reading_) {
    planner_.set_node(world_.node);
    planner_.update_all(world_.cluster);
  }

  // Counts what was compared.
  void check_all(std::map<std::string, int>& counts) {
    for (const auto& [name, service] : world_.cluster.services)
      for (const auto& report : planner_.report_of(name, world_.cluster))
        for (const auto& reach : report.reach) check(report, reach, counts);
  }

 private:
  static plan::PlannerOptions options_for(const test::WalkedCluster& world,
                                          ipset::PacketFilter filter) {
    auto options = world.options;
    options.packet_filter = filter;
    return options;
  }

  static IpAddress pod_elsewhere(Family family) {
    return test::ip(family == Family::ipv4 ? "10.244.9.9" : "fd00:244:9::9");
  }

  // Who has no part in the Service. nullopt: this node chooses its address.
  static std::optional<IpAddress> sender(Client client, Family family) {
    const auto either = [&](const char* v4, const char* v6) {
      return test::ip(family == Family::ipv4 ? v4 : v6);
    };
    switch (client) {
      case Client::outside:
        return either("203.9.9.9", "2001:db8::9");
      case Client::node:
        return std::nullopt;
      case Client::pod:
        return either("10.244.0.250", "fd00:244::fa");
      case Client::localhost:
        return either("127.0.0.1", "::1");
    }
    return std::nullopt;
  }

  // Whether the sender is to this node what its name says, whatever the random options.
  bool is_typical(Client client, const IpAddress& address) const {
    if (client == Client::localhost) return true;
    const auto& rules = planner_.desired().rules.at(address.family());
    const auto* prefix = std::get_if<netlink::IpPrefix>(&rules.detector);
    const bool own = !rules.own_pods || rules.own_pods->contains(address);
    if (client == Client::outside && address == pod_elsewhere(address.family()))
      return prefix == nullptr || rules.own_pods != *prefix || !prefix->contains(address);
    if (client == Client::outside) return prefix == nullptr || !prefix->contains(address);
    // Pods are behind cni0.
    if (const auto* bridge = std::get_if<ipset::BridgeInterface>(&rules.detector))
      return client != Client::pod || bridge->name == "cni0";
    if (const auto* link = std::get_if<ipset::InterfacePrefix>(&rules.detector))
      return client != Client::pod || std::string("cni0").starts_with(link->prefix);
    if (prefix == nullptr) return true;
    return prefix->contains(address) && own;
  }

  bool is_own(const IpAddress& address) const {
    return std::ranges::any_of(world_.node.addresses,
                               [&](const auto& one) { return one.address == address; });
  }

  // A virtual service of the port that has no second meaning.
  const plan::Claim* target(const plan::PortReport& report, const plan::ClientReach& reach) const {
    const bool at_node_port = reach.at_node_port;
    for (const auto& facet : report.facets) {
      const auto& claim = facet.claim;
      const bool is_external =
          claim.facet == plan::Facet::external_ip || claim.facet == plan::Facet::load_balancer;
      const bool is_number = claim.key.port >= 30'000 && claim.key.port <= 31'020;
      if (!facet.held || facet.foreign) continue;
      if (reach.client == Client::localhost) {
        if (claim.facet == plan::Facet::localhost) return &claim;
        continue;
      }
      if (at_node_port ? claim.facet == plan::Facet::node_port
                       : is_external && !is_number && !is_own(claim.key.address))
        return &claim;
    }
    return nullptr;
  }

  void check(const plan::PortReport& report, const plan::ClientReach& reach,
             std::map<std::string, int>& counts) {
    const auto* claim = target(report, reach);
    if (claim == nullptr || !report.port.source_ranges.empty()) return;
    const auto family = claim->key.address.family();
    check_from(sender(reach.client, family), *claim, report, reach, counts);
    if (reach.client == Client::outside && reach.at_node_port)
      check_from(pod_elsewhere(family), *claim, report, reach, counts);
  }

  void check_from(const std::optional<IpAddress>& source, const plan::Claim& at,
                  const plan::PortReport& report, const plan::ClientReach& reach,
                  std::map<std::string, int>& counts) {
    const auto* claim = &at;
    if (source && !is_typical(reach.client, *source)) return;
    const bool elsewhere = source && *source == pod_elsewhere(source->family());
    const std::string who(elsewhere ? "a pod of another node" : to_string(reach.client));
    const auto walk =
        walk_packet(
            {.source = source,
             .source_port = 40'000,
             .destination = reach.client == Client::localhost ? *source : claim->key.address,
             .port = claim->key.port,
             .protocol = claim->key.protocol,
             .in_link = ""},
            reading_, host_)
            .value();
    // With routes it takes an address that some random nodes have not.
    const bool has_source = !world_.options.bind_by_routes || is_own(*walk.flow.source);
    if (reach.client == Client::node && !has_source) return;
    std::string way;
    for (const auto& step : walk.steps)
      way += fmt::format("  {}: {} {}\n", step.stage, step.chain, step.text);
    INFO(to_string(report.port.name.service)
         << " " << to_string(claim->key) << ": " << who << " " << to_string(reach.outcome) << ", "
         << reach.here << " + " << reach.elsewhere << "\n"
         << way << to_string(walk.arrival.fate) << " " << walk.arrival.why);
    ++counts[fmt::format("{} {}", who, to_string(reach.outcome))];
    const bool in_vain =
        reach.outcome == ReachOutcome::refused || reach.outcome == ReachOutcome::dropped;
    if (in_vain) {
      CHECK(walk.candidates.empty());
      auto fate = reach.outcome == ReachOutcome::refused ? Fate::refused : Fate::dropped;
      // There the host itself refuses; of its sockets those of SCTP cannot be listed.
      if (reach.client == Client::localhost && claim->key.protocol == netlink::Protocol::sctp)
        fate = Fate::delivered;
      CHECK(to_string(walk.arrival.fate) == to_string(fate));
      return;
    }
    CHECK(walk.candidates.size() == reach.here + reach.elsewhere);
    for (const auto& one : walk.candidates) {
      const auto& server = one.server.key.address;
      if (is_own(server) || server == source) continue;  // hairpins, and servers of the node
      INFO(to_string(one.server.key) << " sees " << one.arrival.source.to_string());
      CHECK(to_string(one.arrival.fate) == to_string(Fate::served));
      if (!source) continue;
      const bool kept = one.arrival.source == *source;
      CHECK(kept == reach.keeps_source);
      if (!kept && !planner_.desired().rules.at(source->family()).masquerade_all)
        ++counts[who + " masqueraded"];
    }
  }

  test::WalkedCluster world_;
  plan::Planner planner_;
  NodeReading reading_;
  test::WalkedHost host_;
};

TEST_CASE("who is said to be served is served, by as many, and seen as it is said") {
  std::map<std::string, int> counts;
  for (std::uint32_t seed = 0; seed < test::seeds(kReachClusters); ++seed) {
    for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables}) {
      test::RandomCluster random(seed);
      auto world = test::walked_cluster(random, 30);
      if (seed % 4 == 3) {
        world.node.pod_cidrs.clear();
        world.options.detect_local = plan::DetectLocalMode::cluster_cidr;
        world.options.cluster_cidrs = {test::prefix("10.244.0.0/16")};
        world.options.masquerade_all = false;
      }
      for (const bool on : {true, false}) {
        INFO("seed " << seed << ", " << to_string(filter) << ", " << on);
        world.options.differences.in_cluster_clients = on;
        ReachWorld(world, filter).check_all(counts);
      }
    }
  }
  for (const auto* who : {"a client outside", "a pod of another node", "this node",
                          "a pod of this node", "this node on localhost"})
    for (const auto outcome : {ReachOutcome::served, ReachOutcome::refused}) {
      INFO(who << " " << to_string(outcome));
      CHECK(counts[fmt::format("{} {}", who, to_string(outcome))] > 0);
    }
  CHECK(counts["a client outside dropped"] > 0);
  CHECK(counts["a pod of another node dropped"] > 0);
  CHECK(counts["a pod of this node masqueraded"] == 0);
  CHECK(counts["a client outside no answer comes back"] > 0);
}

}  // namespace
}  // namespace ipvsproxier::ctl
