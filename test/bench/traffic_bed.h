#pragma once

// A small cluster with the Services whose packets are followed, programmed in one of three ways.
// One thread. Failures throw std::runtime_error or std::system_error.

#include <string>
#include <string_view>
#include <vector>

#include "test/bench/packet_trace.h"
#include "test/kernel/cluster.h"
#include "test/kernel/manifests.h"

namespace ipvsproxier::bench {

// Whose rules: "kube-proxy" (as it writes them, in legacy iptables), "iptables" and "nftables":
// ours.
struct RulesOf {
  std::string_view name;
  TracedFilter filter;
  std::vector<std::string> flags;
};
const RulesOf& rules_of(std::string_view name);

// From where to where the packets go that are followed.
struct Path {
  std::string name;  // one word
  const test::Host* from = nullptr;
  netlink::IpAddress to;
  std::uint16_t port = 0;
};

struct TrafficBed {
  static constexpr int kRangedServices = 12;

  // The one endpoint of the Services of paths() is the first remote pod; beside them there are
  // Services of all other kinds. `ranges`: load balancers with source ranges, which the client is
  // in and the node is not, as well.
  TrafficBed(const RulesOf& rules, bool ranges);

  std::vector<Path> paths() const;
  // Sends the first packet of a connection, and nothing after it: the endpoint's node drops it.
  void send_first(const Path& path) const;

  const RulesOf& rules;
  bool ranges;
  test::Cluster cluster;
  test::Manifests manifests;
};

}  // namespace ipvsproxier::bench
