// Segments outside the window that conntrack knows: nothing translates their addresses, so whoever
// gets them answers with a reset.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <catch2/catch.hpp>

#include "netlink/unique_fd.h"
#include "test/kernel/packet_filter.h"
#include "test/kernel/traffic.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;

constexpr std::uint32_t kFarAhead = 4'000'000;

// What a pod that serves a stream has received, and who sent it.
struct Segment {
  sockaddr_storage peer{};
  socklen_t peer_size = 0;
  tcphdr header{};
  std::uint32_t data = 0;  // bytes
};

std::uint16_t checksum(const sockaddr_storage& source, const sockaddr_storage& destination,
                       const tcphdr& header) {
  std::vector<std::uint8_t> bytes;
  const auto put = [&](const void* data, std::size_t size) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  for (const auto* end : {&source, &destination})
    if (end->ss_family == AF_INET)
      put(&reinterpret_cast<const sockaddr_in*>(end)->sin_addr, 4);
    else
      put(&reinterpret_cast<const sockaddr_in6*>(end)->sin6_addr, 16);
  const std::uint8_t rest[] = {0, IPPROTO_TCP, 0, sizeof header};
  put(rest, sizeof rest);
  put(&header, sizeof header);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2)
    sum += static_cast<std::uint32_t>(bytes[i] << 8) | bytes[i + 1];
  while (sum > 0xffff) sum = (sum >> 16U) + (sum & 0xffffU);
  return htons(static_cast<std::uint16_t>(~sum));
}

// A raw socket beside the server of a pod.
class Eavesdropper {
 public:
  Eavesdropper(const Pod& pod, Family family) : own_(pod.address(family)) {
    pod.netns->inside([&] {
      socket_ = netlink::UniqueFd(::socket(family == Family::ipv4 ? AF_INET : AF_INET6,
                                           SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    });
    if (!socket_) throw std::system_error(errno, std::generic_category(), "raw socket");
  }

  // Answers the newest segment that the server got, far ahead of what it has sent.
  void send_far_ahead() {
    const auto newest = take();
    REQUIRE(newest);
    tcphdr answer{};
    answer.th_sport = newest->header.th_dport;
    answer.th_dport = newest->header.th_sport;
    answer.th_seq = htonl(ntohl(newest->header.th_ack) + kFarAhead);
    answer.th_ack = htonl(ntohl(newest->header.th_seq) + newest->data);
    answer.th_off = sizeof answer / 4;
    answer.th_flags = TH_ACK;
    answer.th_win = htons(500);
    sockaddr_storage own{};
    own.ss_family = newest->peer.ss_family;
    const auto bytes = own_.bytes();
    void* const at = own.ss_family == AF_INET
                         ? static_cast<void*>(&reinterpret_cast<sockaddr_in*>(&own)->sin_addr)
                         : &reinterpret_cast<sockaddr_in6*>(&own)->sin6_addr;
    std::memcpy(at, bytes.data(), bytes.size());
    answer.th_sum = checksum(own, newest->peer, answer);
    REQUIRE(::sendto(socket_.get(), &answer, sizeof answer, 0,
                     reinterpret_cast<const sockaddr*>(&newest->peer),
                     newest->peer_size) == sizeof answer);
  }

 private:
  std::optional<Segment> take() const {
    std::optional<Segment> newest;
    for (;;) {
      std::uint8_t bytes[65536];
      Segment segment;
      segment.peer_size = sizeof segment.peer;
      const auto size = ::recvfrom(socket_.get(), bytes, sizeof bytes, 0,
                                   reinterpret_cast<sockaddr*>(&segment.peer), &segment.peer_size);
      if (size < 0) return newest;
      const std::size_t start = segment.peer.ss_family == AF_INET ? sizeof(iphdr) : 0;
      if (static_cast<std::size_t>(size) < start + sizeof segment.header) continue;
      std::memcpy(&segment.header, bytes + start, sizeof segment.header);
      segment.data = static_cast<std::uint32_t>(size) -
                     static_cast<std::uint32_t>(start + std::size_t{segment.header.th_off} * 4);
      // Raw sockets of IPv6 take the port for a protocol.
      if (segment.peer.ss_family == AF_INET6)
        reinterpret_cast<sockaddr_in6*>(&segment.peer)->sin6_port = 0;
      if (ntohs(segment.header.th_dport) == kStreamPort) newest = segment;
    }
  }

  netlink::IpAddress own_;
  netlink::UniqueFd socket_;
};

// Whether the connection lives after its endpoint has sent a segment far ahead.
bool outlives_invalid(const Host& from, const char* to, std::uint16_t port, const Pod& endpoint) {
  Eavesdropper beside(endpoint, ip(to).family());
  auto stream = require(from.open_stream(ip(to), port));
  REQUIRE(stream.greeting().server == endpoint.name);
  REQUIRE(stream.exchange());
  beside.send_far_ahead();
  return stream.exchange().has_value();
}

void put_streams(TrafficBed& bed) {
  const auto put = [&](const char* name, int number, const Pod& pod, const char* policy) {
    const auto text = std::to_string(number);
    bed.manifests.put({.name = name,
                       .type = "LoadBalancer",
                       .cluster_ips = {"10.96.0." + text, "fd00:96::" + text},
                       .ports = {{.port = 90,
                                  .target = kStreamPort,
                                  .node_port = static_cast<std::uint16_t>(30000 + number)}},
                       .endpoints = endpoints_of({&pod}),
                       .spec = std::string("externalTrafficPolicy: ") + policy,
                       .ingress_ips = {"192.0.2." + text, "2001:db8:2::" + text}});
  };
  put("here", 30, bed.cluster.local(), "Cluster");
  put("there", 31, bed.cluster.remote(), "Cluster");
  put("sent-on", 32, bed.cluster.remote(), "Local");
}

void check_all(const Cluster& cluster) {
  const auto& client = cluster.client();
  // The answers arrive at an address of the node.
  CHECK(outlives_invalid(client, "10.200.0.2", 30030, cluster.local()));
  CHECK(outlives_invalid(client, "10.200.0.2", 30031, cluster.remote()));
  CHECK(outlives_invalid(client, "fd00:200::2", 30030, cluster.local()));
  CHECK(outlives_invalid(client, "fd00:200::2", 30031, cluster.remote()));
  CHECK(outlives_invalid(cluster.node(), "10.96.0.31", 90, cluster.remote()));
  // They are forwarded to the pod, which asked another address than IPVS translates to.
  CHECK(outlives_invalid(cluster.local(2), "192.0.2.32", 90, cluster.remote()));
  CHECK(outlives_invalid(cluster.local(2), "2001:db8:2::32", 90, cluster.remote()));
}

TEST_CASE("kernel: traffic: a connection outlives an endpoint's segment outside the window") {
  TrafficBed bed;
  put_streams(bed);
  // By source, of all pods or of this node's; else endpoints are told by a set.
  const std::string detections[] = {
      std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges + "\"\n",
      "detectLocalMode: NodeCIDR\n",
      "detectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}\n"};
  const auto& detection = detections[GENERATE(0, 1, 2)];
  CAPTURE(detection);
  bed.manifests.configure(detection);
  bed.program();
  check_all(bed.cluster);
}

TEST_CASE("kernel: traffic: a segment outside the window resets a connection, as in kube-proxy") {
  if (on_nftables()) return;  // which kube-proxy's IPVS mode does not write
  TrafficBed bed;
  put_streams(bed);
  bed.program({"--kube-proxy-compat"});
  const Cluster& cluster = bed.cluster;
  CHECK_FALSE(outlives_invalid(cluster.client(), "10.200.0.2", 30030, cluster.local()));
  CHECK_FALSE(outlives_invalid(cluster.client(), "fd00:200::2", 30030, cluster.local()));
}

TEST_CASE("kernel: traffic: with tcpBeLiberal no segment is outside the window") {
  TrafficBed bed;
  put_streams(bed);
  bed.manifests.configure("conntrack: {tcpBeLiberal: true}\n");
  bed.program();
  const auto rules = bed.cluster.netns().inside([] {
    return shell(on_nftables() ? "nft list table ip kube-ipvs" : "iptables-save -t filter");
  });
  CHECK(rules.find(on_nftables() ? "invalid" : "INVALID") == std::string::npos);
  CHECK(outlives_invalid(bed.cluster.client(), "10.200.0.2", 30030, bed.cluster.local()));
  CHECK(outlives_invalid(bed.cluster.client(), "10.200.0.2", 30031, bed.cluster.remote()));
}

}  // namespace
}  // namespace ipvsproxier::test
