#include "test/kernel/cluster.h"

#include <sstream>
#include <stdexcept>

#include "netlink/sysctl.h"
#include "test/kernel/net_setup.h"
#include "test/support/ip.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::Result;
using netlink::Status;

void set(const char* key, const char* value) {
  require(netlink::Sysctl().ensure(key, value));
}

// IPv6 addresses are to be usable at once: a reflected packet of hairpin mode looks like a
// duplicate.
void prepare(const Netns& netns, bool forwards) {
  netns.inside([forwards] {
    set("net/ipv6/conf/all/accept_dad", "0");
    set("net/ipv6/conf/default/accept_dad", "0");
    if (!forwards) return;
    set("net/ipv4/ip_forward", "1");
    set("net/ipv6/conf/all/forwarding", "1");
  });
}

// The eth0 of a host, with its default routes.
void configure_host(const Netns& netns, const std::string& v4, const std::string& v6,
                    const std::string& gateway4, const std::string& gateway6) {
  NetSetup setup(netns);
  setup.address("eth0", v4);
  setup.address("eth0", v6);
  setup.route("0.0.0.0/0", gateway4);
  setup.route("::/0", gateway6);
}

void configure_router(NetSetup& router) {
  router.enslave("n1", "lan", false);
  router.enslave("n2", "lan", false);
  for (const char* prefix : {"10.200.0.1/24", "fd00:200::1/64"}) router.address("lan", prefix);
  for (const char* prefix : {"203.0.113.1/24", "2001:db8:7::1/64"}) {
    router.address("client", prefix);
  }
  for (const char* prefix : {"198.51.100.1/24", "2001:db8:9::1/64"}) {
    router.address("stranger", prefix);
  }
  std::istringstream ranges(kServiceRanges);
  for (std::string range; ranges >> range;) {
    router.route(range, range.find(':') == std::string::npos ? "10.200.0.2" : "fd00:200::2");
  }
}

}  // namespace

Result<EchoAnswer> Host::ask(Protocol protocol, const IpAddress& to, std::uint16_t port,
                             AskOptions options) const {
  if (binds && !options.source) options.source = address(to.family());
  return netns->inside([&] { return test::ask(protocol, to, port, options); });
}

Result<Stream> Host::open_stream(const IpAddress& to, std::uint16_t port, int timeout_ms) const {
  AskOptions options{.source = {}, .source_port = 0, .timeout_ms = timeout_ms};
  if (binds) options.source = address(to.family());
  return netns->inside([&] { return Stream::open(Protocol::tcp, to, port, options); });
}

Result<UdpClient> Host::open_udp(const IpAddress& to, std::uint16_t port) const {
  AskOptions options;
  if (binds) options.source = address(to.family());
  return netns->inside([&] { return UdpClient::open(to, port, options); });
}

Status Host::ping(const IpAddress& to, int timeout_ms) const {
  return netns->inside([&] { return test::ping(to, timeout_ms); });
}

Cluster::Cluster(const ClusterShape& shape) {
  prepare(node_, true);
  prepare(router_, true);
  prepare(remote_node_, true);
  prepare(client_netns_, false);
  prepare(stranger_netns_, false);
  // A kernel sends only so many ICMP errors to one host; tests ask for more.
  node_.inside([] {
    set("net/ipv4/icmp_ratelimit", "0");
    set("net/ipv6/icmp/ratelimit", "0");
  });
  lay_out();
  add_local_pods(shape.local_pods);
  add_remote_pods(shape.remote_pods);
  for (Pod& pod : local_) serve(pod, shape);
  for (Pod& pod : remote_) serve(pod, shape);
}

void Cluster::lay_out() {
  NetSetup router(router_);
  router.bridge("lan");
  router.veth("n1", node_, "eth0");
  router.veth("n2", remote_node_, "eth0");
  router.veth("client", client_netns_, "eth0");
  router.veth("stranger", stranger_netns_, "eth0");
  configure_router(router);
  configure_host(node_, "10.200.0.2/24", "fd00:200::2/64", "10.200.0.1", "fd00:200::1");
  configure_host(remote_node_, "10.200.0.3/24", "fd00:200::3/64", "10.200.0.1", "fd00:200::1");
  configure_host(client_netns_, "203.0.113.7/24", "2001:db8:7::7/64", "203.0.113.1",
                 "2001:db8:7::1");
  configure_host(stranger_netns_, "198.51.100.9/24", "2001:db8:9::9/64", "198.51.100.1",
                 "2001:db8:9::1");
  NetSetup node(node_);
  node.bridge("cni0");
  node.address("cni0", "10.244.0.1/24");
  node.address("cni0", "fd00:244::1/64");
  node.route("10.244.1.0/24", "10.200.0.3");
  node.route("fd00:244:0:1::/64", "fd00:200::3");
  NetSetup remote(remote_node_);
  remote.route("10.244.0.0/24", "10.200.0.2");
  remote.route("fd00:244::/64", "fd00:200::2");
  node_host_ = {"n1", &node_, ip("10.200.0.2"), ip("fd00:200::2")};
  client_ = {"client", &client_netns_, ip("203.0.113.7"), ip("2001:db8:7::7")};
  stranger_ = {"stranger", &stranger_netns_, ip("198.51.100.9"), ip("2001:db8:9::9")};
}

void Cluster::add_local_pods(int count) {
  NetSetup node(node_);
  for (int number = 1; number <= count; ++number) {
    const Netns& netns = pod_netns_.emplace_back();
    prepare(netns, false);
    Pod& pod = local_.emplace_back();
    pod.name = "local-" + std::to_string(number);
    pod.netns = &netns;
    pod.v4 = ip("10.244.0." + std::to_string(10 + number));
    pod.v6 = ip("fd00:244::" + std::to_string(10 + number));
    pod.node = kNodeName;
    node.veth(pod.name, netns, "eth0");
    node.enslave(pod.name, "cni0", true);
    configure_host(netns, pod.v4.to_string() + "/24", pod.v6.to_string() + "/64", "10.244.0.1",
                   "fd00:244::1");
  }
}

// A pod of n2 is an address there: what n1 sees of it is a route and packets from its address.
void Cluster::add_remote_pods(int count) {
  NetSetup remote_node(remote_node_);
  for (int number = 1; number <= count; ++number) {
    Pod& pod = remote_.emplace_back();
    pod.name = "remote-" + std::to_string(number);
    pod.netns = &remote_node_;
    pod.v4 = ip("10.244.1." + std::to_string(10 + number));
    pod.v6 = ip("fd00:244:0:1::" + std::to_string(10 + number));
    pod.binds = true;
    pod.node = kRemoteNodeName;
    remote_node.address("lo", pod.v4.to_string() + "/32");
    remote_node.address("lo", pod.v6.to_string() + "/128");
  }
}

void Cluster::serve(Pod& pod, const ClusterShape& shape) {
  std::vector<Protocol> protocols = {Protocol::tcp, Protocol::udp};
  if (shape.sctp) protocols.push_back(Protocol::sctp);
  pod.netns->inside([&] {
    // The servers close connections first, and each leaves a trace for a minute: where these are
    // too many for a small guest, the kernel answers late packets with a reset.
    set("net/ipv4/tcp_max_tw_buckets", "65536");
    for (const Family family : netlink::kFamilies) {
      const IpAddress& address = pod.address(family);
      pod.echo.push_back(require(EchoServer::start(pod.name, address, kEchoPort, protocols)));
      pod.streams.push_back(
          require(StreamServer::start(pod.name, Protocol::tcp, address, kStreamPort)));
    }
  });
}

void Cluster::silence(const Pod& pod) {
  for (auto* pods : {&local_, &remote_}) {
    for (Pod& own : *pods) {
      if (&own != &pod) continue;
      own.echo.clear();
      own.streams.clear();
    }
  }
}

}  // namespace ipvsproxier::test
