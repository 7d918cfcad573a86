#include "test/bench/traffic_ways.h"

#include <chrono>
#include <fstream>
#include <stdexcept>

#include "netlink/sysctl.h"
#include "proxier/plan/differences.h"
#include "test/bench/kernel_world.h"
#include "test/bench/workload.h"
#include "test/kernel/net_setup.h"
#include "test/support/ip.h"
#include "test/support/require.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::bench {
namespace {

constexpr const char* kClusterIp = "10.96.250.10";
constexpr const char* kBalancerIp = "192.0.2.10";
// Of the server on this node, where the router sends packets of clients.
constexpr const char* kDirectIp = "192.0.2.200";
constexpr std::uint16_t kPort = 80;

api::Service road_service(const char* name, const char* cluster_ip) {
  api::Service service;
  service.name = {"roads", name};
  service.cluster_ips = {test::ip(cluster_ip)};
  service.ip_families = {netlink::Family::ipv4};
  service.ports = {{.name = "p", .protocol = netlink::Protocol::tcp, .port = kPort}};
  return service;
}

api::EndpointSlice road_slice(const char* service, const test::Pod& pod) {
  api::EndpointSlice slice;
  slice.service = service;
  slice.name = {"roads", slice.service + "-slice"};
  slice.ports = {{.name = "p", .protocol = netlink::Protocol::tcp, .port = Ways::kServerPort}};
  slice.endpoints.push_back({.address = pod.v4, .node_name = pod.node});
  return slice;
}

model::Changes services_of(int services, const test::Cluster& cluster) {
  auto changes = first_lists({.name = "", .services = services, .ports = 1, .endpoints = 2});
  changes.put(road_service("web", kClusterIp));
  changes.put(road_slice("web", cluster.remote()));
  auto front = road_service("front", "10.96.250.20");
  front.type = api::ServiceType::load_balancer;
  front.load_balancer_ips = {test::ip(kBalancerIp)};
  changes.put(front);
  changes.put(road_slice("front", cluster.local(2)));
  return changes;
}

void program(const test::Cluster& cluster, ipset::PacketFilter filter, bool as_kube_proxy,
             const model::Changes& changes) {
  KernelWorld world(filter, cluster.netns());
  world.options.bind_by_routes = true;
  if (as_kube_proxy) world.options.differences = plan::kKubeProxyCompat;
  auto reconciler = world.reconciler();
  reconciler->take({.changes = changes, .links = {}});
  require_complete(reconciler->run(sync::TimePoint{std::chrono::hours(1)}));
}

}  // namespace

std::string_view name_of(Way way) {
  constexpr std::array<std::string_view, kWays.size()> kNames = {"direct", "ipvs", "kube-proxy",
                                                                 "iptables", "nftables"};
  return kNames.at(static_cast<std::size_t>(way));
}

Ways::Ways(int services) {
  prepare(legacy_);
  prepare(nftables_);
  program_legacy(services_of(services, legacy_));
  program_nftables(services_of(services, nftables_));
}

void Ways::prepare(test::Cluster& cluster) {
  const auto& server = cluster.local(2);
  test::NetSetup(*server.netns).address("eth0", std::string(kDirectIp) + "/32");
  test::NetSetup(cluster.netns()).route(std::string(kDirectIp) + "/32", server.v4.to_string());
  // As the daemon sets them.
  cluster.netns().inside([] {
    for (const char* name : {"conntrack", "expire_nodest_conn", "expire_quiescent_template"})
      test::require(netlink::Sysctl().ensure(std::string("net/ipv4/vs/") + name, "1"));
    test::require(netlink::Sysctl().ensure("net/ipv4/vs/conn_reuse_mode", "0"));
  });
}

void Ways::program_legacy(const model::Changes& changes) {
  const auto rules = [this] {
    return legacy_.netns().inside(
        [] { return test::shell("iptables-save -t nat; iptables-save -t filter"); });
  };
  program(legacy_, ipset::PacketFilter::iptables, true, changes);
  kube_proxy_ = rules();
  program(legacy_, ipset::PacketFilter::iptables, false, changes);
  ours_ = rules();
  if (ours_ == kube_proxy_) throw std::runtime_error("kube-proxy's rules and ours are the same");
}

void Ways::program_nftables(const model::Changes& changes) {
  program(nftables_, ipset::PacketFilter::nftables, false, changes);
}

// A dormant table keeps everything, and no packet meets it.
void Ways::set_nftables(bool awake) {
  nftables_.netns().inside([awake] {
    test::shell(awake ? "nft add table ip kube-ipvs"
                      : "nft 'add table ip kube-ipvs { flags dormant; }'");
  });
}

void Ways::set_legacy(const std::string& saved) {
  const test::TempDir folder;
  const auto file = folder.path() / "rules";
  std::ofstream(file) << saved;
  legacy_.netns().inside([&] { test::shell("iptables-restore -w < " + file.string()); });
}

std::array<Road, 2> Ways::open(Way way) {
  const bool is_legacy = way == Way::kube_proxy || way == Way::iptables;
  if (is_legacy)
    set_legacy(way == Way::kube_proxy ? kube_proxy_ : ours_);
  else
    set_nftables(way == Way::nftables);
  const auto& cluster = is_legacy ? legacy_ : nftables_;
  const auto& far = cluster.remote();
  const auto& near = cluster.local(2);
  if (way == Way::direct)
    return {Road{"cluster-ip", &cluster.local(), &far, far.v4, kServerPort},
            Road{"load-balancer", &cluster.client(), &near, test::ip(kDirectIp), kServerPort}};
  return {Road{"cluster-ip", &cluster.local(), &far, test::ip(kClusterIp), kPort},
          Road{"load-balancer", &cluster.client(), &near, test::ip(kBalancerIp), kPort}};
}

}  // namespace ipvsproxier::bench
