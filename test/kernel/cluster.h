#pragma once

// A small cluster of network namespaces with servers in its pods, IPv4 and IPv6 everywhere:
//
//   client 203.0.113.7 ----+            +-- n1 10.200.0.2 -- cni0 10.244.0.1 -- pods 10.244.0.11
//   ...
//                          +-- router --+
//   stranger 198.51.100.9 -+            +-- n2 10.200.0.3 -- pods 10.244.1.11 ...
//
// The same in IPv6: client 2001:db8:7::7, stranger 2001:db8:9::9, n1 fd00:200::2, n2 fd00:200::3,
// cni0 fd00:244::1, local pods fd00:244::11, remote pods fd00:244:0:1::11. The router sends Service
// addresses (kServiceRanges) to n1. The daemon runs in n1; its pods are bridged with hairpin mode,
// as CNIs set it, and the kernel's default for bridged packets to see iptables is left alone. What
// makes or enters namespaces throws std::runtime_error.

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "test/kernel/netns.h"
#include "test/support/echo.h"
#include "test/support/ping.h"
#include "test/support/stream.h"

namespace ipvsproxier::test {

inline constexpr const char* kNodeName = "n1";
inline constexpr const char* kRemoteNodeName = "n2";
inline constexpr const char* kPodRanges = "10.244.0.0/16,fd00:244::/48";
// Cluster IPs, then load-balancer and external addresses.
inline constexpr const char* kServiceRanges =
    "10.96.0.0/16 192.0.2.0/24 fd00:96::/112 2001:db8:2::/64";
inline constexpr std::uint16_t kEchoPort = 8080;  // of every pod: TCP, UDP and, if asked for, SCTP
inline constexpr std::uint16_t kStreamPort = 9090;  // of every pod: TCP, stays open

// Somebody who sends packets. The functions may be called on any thread.
struct Host {
  std::string name;
  const Netns* netns = nullptr;
  netlink::IpAddress v4;
  netlink::IpAddress v6;
  // Whether it has to name its source address, because its namespace has other ones.
  bool binds = false;

  const netlink::IpAddress& address(netlink::Family family) const {
    return family == netlink::Family::ipv4 ? v4 : v6;
  }
  netlink::Result<EchoAnswer> ask(netlink::Protocol protocol, const netlink::IpAddress& address,
                                  std::uint16_t port, AskOptions options = {}) const;
  netlink::Result<Stream> open_stream(const netlink::IpAddress& address, std::uint16_t port,
                                      int timeout_ms = 5000) const;
  // The source port stays the same for the life of the client.
  netlink::Result<UdpClient> open_udp(const netlink::IpAddress& address, std::uint16_t port) const;
  netlink::Status ping(const netlink::IpAddress& address, int timeout_ms = 5000) const;
};

// A host with servers: they answer with its name on kEchoPort and kStreamPort of both addresses.
struct Pod : Host {
  std::string node;
  std::vector<std::unique_ptr<EchoServer>> echo;
  std::vector<std::unique_ptr<StreamServer>> streams;
};

struct ClusterShape {
  int local_pods = 2;   // "local-1", "local-2", ...: at most 80
  int remote_pods = 1;  // "remote-1", ...
  bool sctp = false;    // the pods serve SCTP as well
};

class Cluster {
 public:
  explicit Cluster(const ClusterShape& shape = {});

  const Netns& netns() const { return node_; }  // of n1
  const Host& node() const { return node_host_; }
  const Host& client() const { return client_; }
  const Host& stranger() const { return stranger_; }
  const Pod& local(int number = 1) const { return local_.at(static_cast<std::size_t>(number - 1)); }
  const Pod& remote(int number = 1) const {
    return remote_.at(static_cast<std::size_t>(number - 1));
  }
  // Ends the servers of a pod, as when its container is killed.
  void silence(const Pod& pod);

 private:
  void lay_out();
  void add_local_pods(int count);
  void add_remote_pods(int count);
  void serve(Pod& pod, const ClusterShape& shape);

  Netns node_;
  Netns router_;
  Netns remote_node_;
  Netns client_netns_;
  Netns stranger_netns_;
  std::list<Netns> pod_netns_;
  Host node_host_;
  Host client_;
  Host stranger_;
  std::vector<Pod> local_;
  std::vector<Pod> remote_;
};

}  // namespace ipvsproxier::test
