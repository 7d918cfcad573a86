// How requests are spread over backends: in turns, by client, or refused because there is none.

#include <chrono>
#include <map>
#include <set>
#include <thread>

#include <catch2/catch.hpp>

#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr const char* kSpread[] = {"10.96.0.40", "fd00:96::40"};
constexpr const char* kSticky[] = {"10.96.0.41", "fd00:96::41"};
constexpr const char* kForgetful[] = {"10.96.0.42", "fd00:96::42"};
constexpr const char* kEmpty[] = {"10.96.0.43", "fd00:96::43"};
constexpr const char* kNode[] = {"10.200.0.2", "fd00:200::2"};
constexpr const char* kBridge[] = {"10.244.0.1", "fd00:244::1"};
const std::set<std::string> kPods = {"local-1", "local-2", "remote-1"};
const std::set<std::string> kFourOfOne = {"local-1 4", "local-2 4", "remote-1 4"};
constexpr int kAffinitySeconds = 3;

constexpr std::uint16_t kSpreadNodePort = 30040;
constexpr std::uint16_t kEmptyNodePort = 30043;

std::vector<PortManifest> all_protocols(std::uint16_t node_port = 0) {
  return {{.name = "t", .protocol = Protocol::tcp, .port = 80, .node_port = node_port},
          {.name = "u", .protocol = Protocol::udp, .port = 80, .node_port = node_port},
          {.name = "s", .protocol = Protocol::sctp, .port = 80, .node_port = node_port}};
}

std::string affinity(int seconds) {
  return "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: " +
         std::to_string(seconds) + "}}";
}

void put_balanced_services(TrafficBed& bed) {
  const Cluster& cluster = bed.cluster;
  const auto three = endpoints_of({&cluster.local(1), &cluster.local(2), &cluster.remote(1)});
  bed.manifests.put({.name = "spread",
                     .type = "NodePort",
                     .cluster_ips = {kSpread[0], kSpread[1]},
                     .ports = all_protocols(kSpreadNodePort),
                     .endpoints = three});
  bed.manifests.put({.name = "sticky",
                     .cluster_ips = {kSticky[0], kSticky[1]},
                     .ports = all_protocols(),
                     .endpoints = three,
                     .spec = affinity(10800)});
  bed.manifests.put({.name = "forgetful",
                     .cluster_ips = {kForgetful[0], kForgetful[1]},
                     .ports = all_protocols(),
                     .endpoints = three,
                     .spec = affinity(kAffinitySeconds)});
  bed.manifests.put({.name = "empty",
                     .type = "NodePort",
                     .cluster_ips = {kEmpty[0], kEmpty[1]},
                     .ports = all_protocols(kEmptyNodePort)});
}

// The pod that answered; other outcomes as they are.
std::string server_of(const std::string& answer) {
  return answer.substr(0, answer.find(" sees "));
}

// Who answered how often: "local-1 2, local-2 1".
std::string servers(const Host& from, Protocol protocol, const std::string& to, std::uint16_t port,
                    int requests) {
  std::map<std::string, int> counts;
  for (int i = 0; i < requests; ++i) ++counts[server_of(answer(from, protocol, to, port))];
  std::string text;
  for (const auto& [server, count] : counts) {
    text += (text.empty() ? "" : ", ") + server + " " + std::to_string(count);
  }
  return text;
}

void check_spread(const Cluster& cluster, std::size_t family) {
  const std::string even = "local-1 2, local-2 2, remote-1 2";
  for (const Protocol protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp}) {
    INFO(kSpread[family] << " " << netlink::to_string(protocol));
    CHECK(servers(cluster.local(2), protocol, kSpread[family], 80, 6) == even);
    CHECK(servers(cluster.client(), protocol, kNode[family], kSpreadNodePort, 6) == even);
  }
}

void check_affinity(const Cluster& cluster, std::size_t family) {
  for (const Protocol protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp}) {
    INFO(kSticky[family] << " " << netlink::to_string(protocol));
    const auto of_pod = servers(cluster.local(2), protocol, kSticky[family], 80, 4);
    const auto of_client = servers(cluster.client(), protocol, kSticky[family], 80, 4);
    CHECK(kFourOfOne.count(of_pod) == 1);
    CHECK(kFourOfOne.count(of_client) == 1);
    // Each client takes one turn.
    CHECK(of_client != of_pod);
  }
}

void check_refusals(const Cluster& cluster, std::size_t family) {
  for (const Host* from : three_sides(cluster)) {
    for (const char* address : {kEmpty[family], kNode[family]}) {
      const std::uint16_t port = address == kEmpty[family] ? 80 : kEmptyNodePort;
      INFO(from->name << " " << address);
      CHECK(answer(*from, Protocol::tcp, address, port) == "refused");
      const auto datagram = from->ask(Protocol::udp, ip(address), port);
      REQUIRE_FALSE(datagram);
      // Where IPVS sees a datagram of the node's own, it drops it within send().
      CHECK(datagram.error().sys_errno == (from == &cluster.node() ? EPERM : ECONNREFUSED));
    }
  }
}

void check_sctp_sources(const Cluster& cluster, std::size_t family) {
  const auto sees = [&](const Host& from, const char* to, std::uint16_t port) {
    std::string text;
    // The rr turn of local-1 comes within three requests.
    for (int i = 0; i < 3 && server_of(text) != "local-1"; ++i) {
      text = answer(from, Protocol::sctp, to, port);
    }
    return text;
  };
  INFO(kSpread[family]);
  const Pod& pod = cluster.local(2);
  const std::string own = (family == 0 ? pod.v4 : pod.v6).to_string();
  const std::string masqueraded = std::string("local-1 sees ") + kBridge[family];
  CHECK(sees(pod, kSpread[family], 80) == "local-1 sees " + own);
  CHECK(sees(cluster.local(1), kSpread[family], 80) == masqueraded);
  CHECK(sees(cluster.client(), kSpread[family], 80) == masqueraded);
  CHECK(sees(cluster.client(), kNode[family], kSpreadNodePort) == masqueraded);
  CHECK(sees(pod, kNode[family], kSpreadNodePort) == masqueraded);
}

TEST_CASE("kernel: traffic: backends take turns, stay with a client, or are missing") {
  TrafficBed bed({.local_pods = 2, .remote_pods = 1, .sctp = true});
  const Cluster& cluster = bed.cluster;
  put_balanced_services(bed);
  bed.manifests.configure(std::string("ipvs: {udpTimeout: 1s}\ndetectLocalMode: ClusterCIDR\n") +
                          "clusterCIDR: \"" + kPodRanges + "\"\n");
  bed.program();

  const auto ask_forgetful = [&](std::size_t family) {
    return server_of(answer(cluster.client(), Protocol::udp, kForgetful[family], 80));
  };
  const std::vector<std::string> before = {ask_forgetful(0), ask_forgetful(1)};
  const auto expired =
      std::chrono::steady_clock::now() + std::chrono::seconds(kAffinitySeconds + 1);
  for (std::size_t family = 0; family < 2; ++family) {
    check_spread(cluster, family);
    check_affinity(cluster, family);
    check_refusals(cluster, family);
    check_sctp_sources(cluster, family);
  }
  // A client that stays away longer than the affinity lasts takes its turn again. IPVS keeps the
  // client's entry as long as a connection of it, so that udpTimeout is shorter here.
  std::this_thread::sleep_until(expired);
  for (std::size_t family = 0; family < 2; ++family) {
    INFO(kForgetful[family]);
    const std::string now = ask_forgetful(family);
    CHECK(kPods.count(before[family]) == 1);
    CHECK(kPods.count(now) == 1);
    CHECK(now != before[family]);
  }
}

}  // namespace
}  // namespace ipvsproxier::test
