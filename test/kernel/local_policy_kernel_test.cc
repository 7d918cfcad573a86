// A Service of external policy Local while its endpoints move between nodes and its policy changes:
// no new connection fails, from wherever it comes; what lasts keeps its endpoint until that is
// drained, and is then cut.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/kernel/traffic.h"
#include "test/support/ip.h"
#include "test/support/sockets.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::Protocol;

// An address of the Service, by both families, and the ports there.
struct MovingFacet {
  std::string name;
  netlink::IpAddress v4;
  netlink::IpAddress v6;
  std::uint16_t echo = 80;
  std::uint16_t stream = 90;

  const netlink::IpAddress& address(Family family) const {
    return family == Family::ipv4 ? v4 : v6;
  }
};

std::vector<MovingFacet> moving_facets(const Cluster& cluster) {
  return {{"load balancer", ip("192.0.2.10"), ip("2001:db8:2::10")},
          {"external IP", ip("192.0.2.20"), ip("2001:db8:2::20")},
          {"node port", cluster.node().v4, cluster.node().v6, 30080, 30090}};
}

ServiceManifest moving_service(const std::vector<const Pod*>& pods, bool local_policy) {
  ServiceManifest service{
      .name = "moving",
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0.9", "fd00:96::9"},
      .ports = {{.name = "tcp", .port = 80, .target = kEchoPort, .node_port = 30080},
                {.name = "udp",
                 .protocol = Protocol::udp,
                 .port = 80,
                 .target = kEchoPort,
                 .node_port = 30080},
                {.name = "stream", .port = 90, .target = kStreamPort, .node_port = 30090}},
      .endpoints = endpoints_of(pods),
      .spec = fmt::format("externalTrafficPolicy: {}, externalIPs: [192.0.2.20, "
                          "\"2001:db8:2::20\"]",
                          local_policy ? "Local" : "Cluster"),
      .ingress_ips = {"192.0.2.10", "2001:db8:2::10"}};
  return service;
}

// Asks again and again, each time with a new connection or flow. UDP has a second try, as its
// clients do.
class Asker {
 public:
  Asker(const Host& host, Protocol protocol, const MovingFacet& facet, Family family)
      : name_(fmt::format("{} to {} by {} {}", host.name, facet.name, netlink::to_string(family),
                          netlink::to_lower_string(protocol))),
        thread_([this, &host, protocol,
                 target = Target{facet.address(family), facet.echo}](const std::stop_token& stop) {
          for (; !stop.stop_requested(); ++made_) {
            note(protocol == Protocol::udp
                     ? ask_by_udp(host, target)
                     : host.ask(protocol, target.address, target.port, {.timeout_ms = kPatience}));
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
          }
        }) {}

  std::size_t made() const { return made_; }
  void stop() { thread_.request_stop(); }
  // "" if all were answered. After stop().
  std::string failures() {
    thread_.join();
    std::string text;
    for (const auto& [why, count] : failures_)
      text += fmt::format("{}: {} {}\n", name_, count, why);
    return text;
  }
  bool reached(const std::string& server) const {
    const std::scoped_lock lock(mutex_);
    return servers_.contains(server);
  }

 private:
  static constexpr int kPatience = 30'000;  // those outside wait while no endpoint is here

  static netlink::Result<EchoAnswer> ask_by_udp(const Host& host, const Target& target) {
    auto client = host.open_udp(target.address, target.port);
    if (!client) return client.error();
    auto answer = client->ask(1000);
    return answer ? answer : client->ask(5000);
  }
  void note(const netlink::Result<EchoAnswer>& answer) {
    const std::scoped_lock lock(mutex_);
    if (answer)
      ++servers_[answer->server];
    else
      ++failures_[netlink::to_string(answer.error())];
  }

  std::string name_;
  std::atomic<std::size_t> made_{0};
  mutable std::mutex mutex_;
  std::map<std::string, std::size_t> servers_;
  std::map<std::string, std::size_t> failures_;
  std::jthread thread_;
};

class MovingBed {
 public:
  explicit MovingBed(const std::vector<std::string>& more_flags = {})
      : daemon_(cluster.netns(), flags(more_flags)) {
    manifests_.put(moving_service({&here, &far}, true));
    daemon_.start();
    REQUIRE(daemon_.logs("synced: "));
  }

  void change(const std::vector<const Pod*>& pods, bool local_policy = true) {
    daemon_.mark();
    manifests_.put(moving_service(pods, local_policy));
    INFO(daemon_.log());
    REQUIRE(daemon_.logs("synced: "));
  }
  std::string log() const { return daemon_.log(); }
  void kill_and_start_again() {
    daemon_.kill();
    daemon_.mark();
    daemon_.start();
    REQUIRE(daemon_.logs("synced: "));
  }
  // What kube-proxy's ipvs mode has comes after it.
  void hand_back() {
    REQUIRE(daemon_.terminate() == 0);
    const auto result = run_once(cluster.netns(), manifests_, {"--in-cluster-clients=false"});
    INFO(result.log);
    REQUIRE(result.status == 0);
  }

  const Cluster cluster{{.local_pods = 3, .remote_pods = 2}};
  const Pod& here = cluster.local(1);
  const Pod& also_here = cluster.local(2);
  const Pod& client = cluster.local(3);
  const Pod& far = cluster.remote(1);
  const Pod& also_far = cluster.remote(2);

 private:
  std::vector<std::string> flags(const std::vector<std::string>& more) const {
    auto flags = manifests_.flags();
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  Manifests manifests_;
  Daemon daemon_;
};

// From the node and a pod to each address; from outside to each by TCP and IPv4.
class Askers {
 public:
  explicit Askers(const Cluster& cluster, const Pod& pod) {
    const auto facets = moving_facets(cluster);
    for (const auto& facet : facets) add(cluster.client(), Protocol::tcp, facet, Family::ipv4);
    first_inside_ = askers_.size();
    for (const Host* host : {&cluster.node(), static_cast<const Host*>(&pod)})
      for (const auto protocol : {Protocol::tcp, Protocol::udp})
        for (const auto family : netlink::kFamilies)
          for (const auto& facet : facets) add(*host, protocol, facet, family);
  }

  // Until each of those inside has asked so many times more: those outside may have to wait.
  void go_on(std::size_t times = 3) const {
    std::vector<std::size_t> enough;
    for (const auto& asker : askers_) enough.push_back(asker->made() + times);
    for (auto i = first_inside_; i < askers_.size(); ++i)
      while (askers_[i]->made() < enough[i])
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // Checks that each of those inside reaches all servers, now at the latest, and that none failed.
  void end(const std::vector<std::string>& servers) {
    for (auto i = first_inside_; i < askers_.size(); ++i)
      for (const auto& server : servers)
        CHECK(eventually([&] { return askers_[i]->reached(server); }));
    for (const auto& asker : askers_) asker->stop();
    std::size_t made = 0;
    for (const auto& asker : askers_) {
      const auto failures = asker->failures();
      INFO(failures);
      CHECK(failures.empty());
      made += asker->made();
    }
    WARN("new connections and flows: " << made);
  }

 private:
  void add(const Host& host, Protocol protocol, const MovingFacet& facet, Family family) {
    askers_.push_back(std::make_unique<Asker>(host, protocol, facet, family));
  }

  std::vector<std::unique_ptr<Asker>> askers_;
  std::size_t first_inside_ = 0;
};

void move_and_change(int rounds) {
  MovingBed bed;
  Askers askers(bed.cluster, bed.client);
  const auto& here = bed.here;
  const auto& far = bed.far;
  const auto change = [&](const std::vector<const Pod*>& pods, bool local_policy = true) {
    bed.change(pods, local_policy);
    askers.go_on();
  };
  askers.go_on();
  for (int round = 0; round < rounds; ++round) {
    change({&far, &bed.also_far});
    change({&bed.also_here, &far});
    change({&here, &far}, false);
    change({&far}, false);
    change({&far, &here});
  }
  INFO(bed.log());
  askers.end({"local-1", "remote-1"});
}

TEST_CASE("kernel: endpoints of policy Local move and the policy changes, once",
          "[local_policy_once]") {
  move_and_change(1);
}

TEST_CASE("kernel: endpoints of policy Local move and the policy changes: no connection fails",
          "[.local_policy_moves]") {
  move_and_change(3);
}

// What lasts, from within the cluster.
struct LastingFlows {
  std::vector<std::pair<std::string, Stream>> streams;
  std::vector<std::pair<std::string, UdpClient>> flows;

  void open(const Host& host, const MovingFacet& facet, Family family) {
    auto name = fmt::format("{} to {} by {}", host.name, facet.name, netlink::to_string(family));
    INFO(name);
    auto stream = host.open_stream(facet.address(family), facet.stream);
    REQUIRE(stream);
    streams.emplace_back(name, *std::move(stream));
    auto flow = host.open_udp(facet.address(family), facet.echo);
    REQUIRE(flow);
    flows.emplace_back(std::move(name), *std::move(flow));
  }
  // Those that go on, a line each.
  std::string going_on(int timeout_ms) {
    std::string text;
    for (auto& [name, stream] : streams)
      if (stream.exchange(timeout_ms)) text += name + "\n";
    return text;
  }
  // Whom the next packet reaches or, if it is lost, the one after it.
  std::vector<std::string> reached() {
    std::vector<std::string> servers;
    for (auto& [name, flow] : flows) {
      auto answer = flow.ask(500);
      if (!answer) answer = flow.ask(5000);
      servers.push_back(answer ? answer->server : name + ": " + outcome(answer));
    }
    return servers;
  }
};

TEST_CASE("kernel: flows of in-cluster clients of policy Local are drained, then cut",
          "[.local_policy_moves]") {
  MovingBed bed({"--drain-timeout", "12s"});
  bed.change({&bed.far});
  LastingFlows lasting;
  for (const Host* host : {&bed.cluster.node(), static_cast<const Host*>(&bed.client)})
    for (const auto& facet : moving_facets(bed.cluster))
      for (const auto family : netlink::kFamilies) lasting.open(*host, facet, family);
  const auto all_reach = [&](const std::string& server) {
    return std::vector<std::string>(lasting.flows.size(), server);
  };
  CHECK(lasting.reached() == all_reach("remote-1"));
  const auto all = lasting.going_on(5000);
  CHECK(static_cast<std::size_t>(std::ranges::count(all, '\n')) == lasting.streams.size());

  bed.change({&bed.also_far});
  CHECK(lasting.reached() == all_reach("remote-2"));
  CHECK(lasting.going_on(5000) == all);
  // A flow whose endpoint stays does not move.
  bed.change({&bed.also_far, &bed.far});
  CHECK(lasting.reached() == all_reach("remote-2"));
  CHECK(lasting.going_on(5000) == all);

  bed.change({&bed.also_far});
  IpvsView ipvs{bed.cluster.netns()};
  const auto is_there = [&](const std::string& address, const netlink::IpAddress& server) {
    return ipvs.weight({.address = ip(address), .protocol = Protocol::tcp, .port = 90},
                       {.address = server, .port = kStreamPort});
  };
  CHECK(eventually(
      [&] { return !is_there("10.96.0.9", bed.far.v4) && !is_there("fd00:96::9", bed.far.v6); },
      40'000));
  // Their entries of connection tracking go behind the real server.
  std::string left;
  const bool cut = eventually([&] {
    left = lasting.going_on(700);
    return left.empty();
  });
  INFO("still there: " << left);
  CHECK(cut);
}

TEST_CASE("kernel: flows of in-cluster clients of policy Local outlive the daemon",
          "[.local_policy_moves]") {
  MovingBed bed;
  bed.change({&bed.far});
  LastingFlows lasting;
  for (const Host* host : {&bed.cluster.node(), static_cast<const Host*>(&bed.client)})
    for (const auto& facet : moving_facets(bed.cluster))
      for (const auto family : netlink::kFamilies) lasting.open(*host, facet, family);
  const auto all = lasting.going_on(5000);
  const std::vector<std::string> all_reach(lasting.flows.size(), "remote-1");
  CHECK(lasting.reached() == all_reach);
  SECTION("a kill, and the next start") {
    bed.kill_and_start_again();
    CHECK(lasting.reached() == all_reach);
    bed.change({&bed.far, &bed.also_far});
  }
  SECTION("the end of the option") {
    bed.hand_back();
  }
  CHECK(lasting.reached() == all_reach);
  CHECK(lasting.going_on(5000) == all);
}

}  // namespace
}  // namespace ipvsproxier::test
