#pragma once

// Two nodes in one kernel with the same Services, and the ways by which packets come to an endpoint
// there: directly, or through IPVS with one of the packet filters. One thread. Failures throw
// std::runtime_error or std::system_error.
//
// There are two nodes because the tables of legacy iptables cannot be taken out of a network
// namespace: packets would meet their empty chains in all other ways.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "netlink/ip_address.h"
#include "proxier/model/changes.h"
#include "test/kernel/cluster.h"

namespace ipvsproxier::bench {

// `direct`: no Service, routed by the node. `ipvs`: virtual services and no rules.
enum class Way : std::uint8_t { direct, ipvs, kube_proxy, iptables, nftables };

inline constexpr std::array kWays = {Way::direct, Way::ipvs, Way::kube_proxy, Way::iptables,
                                     Way::nftables};
std::string_view name_of(Way way);

// From a client to a server behind the node.
struct Road {
  std::string name;  // "cluster-ip" or "load-balancer"
  const test::Host* client = nullptr;
  const test::Pod* server = nullptr;
  netlink::IpAddress to;
  std::uint16_t port = 0;
};

class Ways {
 public:
  static constexpr std::uint16_t kServerPort = 7070;

  // This many Services beside those of the roads; each 50th has source ranges. Addresses of
  // Services are bound by routes, which takes less time.
  explicit Ways(int services);

  // From a pod to a cluster IP, whose endpoint is on another node, and from a client to a load
  // balancer with masquerading, whose endpoint is on this one. Until the next call packets go
  // `way`.
  std::array<Road, 2> open(Way way);

 private:
  void prepare(test::Cluster& cluster);
  void program_legacy(const model::Changes& changes);
  void program_nftables(const model::Changes& changes);
  void set_nftables(bool awake);
  void set_legacy(const std::string& saved);

  test::Cluster legacy_;
  test::Cluster nftables_;
  std::string kube_proxy_;  // its rules, as iptables-save prints them
  std::string ours_;
};

}  // namespace ipvsproxier::bench
