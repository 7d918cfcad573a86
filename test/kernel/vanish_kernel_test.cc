// Whole tables of the kernel vanish while the daemon runs and Services change: singly, in pairs and
// triples, at random moments. Everything is right again without a restart, within two sync periods,
// and traffic that needs nothing of what vanished does not notice.
//
// IPVS_PROXIER_SOAK_SECONDS and IPVS_PROXIER_SOAK_SEED say how long and with what luck. Each round
// has a seed of its own, which shows a failure again in the first round; what it did is tried again
// in parts. Modules that are unloaded: late_module_test.sh.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "netlink/sysctl.h"
#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::Protocol;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::chrono::seconds kSyncPeriod{2};
// Two sync periods, and what a busy machine takes for work that is done by then.
constexpr int kSoon = 2 * 2000 + 15'000;  // ms

// What traffic may need. A connection that begins or ends while rules, sets or tracking for it are
// missing may stay without an answer, and leave entries of IPVS and conntrack that no longer fit. A
// client that takes the same port again meets them: a server whose last packet comes after
// `conntrack -F` leaves a flow of the opposite direction, for minutes. So clients do not.
enum Need : unsigned {
  nothing = 0,
  virtual_services = 1,
  bindings = 2,
  forwarding = 4,
  rules = 8,
  sets = 16,
  tracking = 32
};
constexpr unsigned kMasquerading = rules | sets | tracking;

constexpr const char* kFlushRules =
    "for c in iptables ip6tables; do for t in nat filter; do $c -t $t -F; done; done";

struct Vanishing {
  const char* command;  // run in the daemon's namespace; what it says and fails at does not matter
  unsigned takes = nothing;
};

// While rules come back a set cannot be destroyed.
const Vanishing kVanishings[] = {
    {"ipvsadm -C", virtual_services},
    {kFlushRules, rules},
    {"for c in iptables ip6tables; do for t in nat filter; do $c -t $t -F; $c -t $t -X; done; "
     "done",
     rules},
    {"ipset flush", sets},
    {"for c in iptables ip6tables; do for t in nat filter; do $c -t $t -F; $c -t $t -X; done; "
     "done; ipset destroy",
     rules},
    {"ip link del kube-ipvs0", bindings},
    {"ip addr flush dev kube-ipvs0", bindings},
    {"ip link set kube-ipvs0 up; ip link set kube-ipvs0 down", bindings},
    {"conntrack -F", tracking},
    {"cd /proc/sys/net/ipv4/vs; for key in conntrack expire_nodest_conn expire_quiescent_template; "
     "do "
     "echo 0 >$key; done",
     tracking},
    {"echo 0 >/proc/sys/net/ipv4/ip_forward", forwarding},
    {"ip link set lo down; ip link set lo up"},
};

// Something vanishes, or (nullptr) a Service changes; then nothing is done for a while.
struct Step {
  const Vanishing* vanishing = nullptr;
  milliseconds pause{0};
};
using Steps = std::vector<Step>;

// A change among one to three vanishings.
Steps steps_of(std::uint32_t seed) {
  RandomCluster random(seed);
  Steps steps(static_cast<std::size_t>(random.number(1, 3)));
  for (auto& step : steps)
    step.vanishing = &kVanishings[random.number(0, static_cast<int>(std::size(kVanishings)) - 1)];
  steps.insert(steps.begin() + random.number(0, static_cast<int>(steps.size())), Step{});
  for (auto& step : steps) step.pause = milliseconds(random.chance(50) ? 0 : random.number(0, 300));
  return steps;
}

std::string told(const Steps& steps) {
  std::string story;
  for (const auto& [vanishing, pause] : steps)
    story +=
        fmt::format("{}; {} ms; ", vanishing == nullptr ? "a Service changes" : vanishing->command,
                    pause.count());
  return story;
}

constexpr std::size_t kFirstPort = 20'000;
constexpr std::size_t kEphemeralPorts = 32'768;
// So a port is used again after more than two minutes: nothing remembers it any more.
constexpr milliseconds kAskPause{10};

// Somebody who asks a Service again and again; a failure counts unless what it needs had vanished
// meanwhile.
class Probe {
 public:
  Probe(std::string name, const Host& host, netlink::IpAddress address, std::uint16_t port,
        unsigned needs)
      : name_(std::move(name)),
        needs_(needs),
        thread_([this, &host, address, port](const std::stop_token& stop) {
          while (!stop.stop_requested()) ask(host, address, port);
        }) {}

  // Before and after what it may notice.
  void lose(unsigned takes) {
    if ((takes & needs_) != 0) ++lost_;
  }
  void regain() { lost_ += lost_ % 2; }

  // Waits until what it asks now and what it asks next has an answer or none. "" if it was served
  // whenever nothing that it needs was missing.
  std::string verdict() const {
    const auto before = asked_.load();
    if (!eventually([&] { return asked_ >= before + 2; })) return name_ + ": no end";
    return failure();
  }

  // Its last ask is open until verdict_of_all().
  void stop() { thread_.request_stop(); }
  std::string verdict_of_all() {
    thread_.join();
    return failure();
  }
  std::size_t served() const { return served_; }

 private:
  void ask(const Host& host, const netlink::IpAddress& address, std::uint16_t port) {
    const unsigned before = lost_;
    // A busy guest loses packets; a connection that is broken stays so.
    const auto answer = host.ask(Protocol::tcp, address, port,
                                 {.source = {}, .source_port = next_port(), .timeout_ms = 20'000});
    std::this_thread::sleep_for(kAskPause);
    if (answer) ++served_;
    if (!answer && before % 2 == 0 && before == lost_) {
      const std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = name_ + ": " + netlink::to_string(answer.error());
    }
    ++asked_;
  }

  std::uint16_t next_port() {
    return static_cast<std::uint16_t>(kFirstPort + asked_ % (kEphemeralPorts - kFirstPort));
  }

  std::string failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  const std::string name_;
  const unsigned needs_;
  std::atomic<unsigned> lost_ = 1;  // odd: something that it needs is missing, or nothing began
  std::atomic<std::size_t> asked_ = 0;
  std::atomic<std::size_t> served_ = 0;
  mutable std::mutex mutex_;
  std::string failure_;
  std::jthread thread_;  // last
};

// "web": of all kinds of VIPs something, its endpoints on this node.
ServiceManifest shop_of(const Cluster& cluster) {
  ServiceManifest web{
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0.9", "fd00:96::9"},
      .ports = {{.name = "echo", .port = 80, .target = kEchoPort, .node_port = 30080}},
      .spec = "loadBalancerSourceRanges: [203.0.113.0/24], externalIPs: [192.0.2.10]",
      .ingress_ips = {"192.0.2.9"}};
  for (int number = 1; number <= 2; ++number)
    for (const Family family : netlink::kFamilies)
      web.endpoints.push_back({cluster.local(number).address(family), kNodeName});
  return web;
}

// One of the two that take turns.
ServiceManifest rival(bool second) {
  ServiceManifest service{.name = "rival",
                          .type = "NodePort",
                          .cluster_ips = {second ? "10.96.1.2" : "10.96.1.1", "fd00:96::11"},
                          .ports = {{.name = "dns", .protocol = Protocol::udp, .port = 53}}};
  service.ports[0].node_port = second ? 30053 : 30054;
  for (int i = 0; i < 3; ++i)
    service.endpoints.push_back(
        {ip(fmt::format("10.244.1.{}", 100 + i + (second ? 2 : 0))), kRemoteNodeName});
  return service;
}

class VanishWorld {
 public:
  VanishWorld() {
    manifests_.configure(fmt::format(
        "detectLocalMode: ClusterCIDR\nclusterCIDR: \"{}\"\nipvs: {{syncPeriod: {}s}}\n",
        kPodRanges, kSyncPeriod.count()));
    manifests_.put(shop_of(cluster_));
    manifests_.put(rival(false));
    daemon_.start();
    REQUIRE(daemon_.logs("synced: "));
    wanted_[0] = settled_state();
    manifests_.put(rival(true));
    REQUIRE(eventually([&] { return state() != wanted_[0]; }));
    wanted_[1] = settled_state();
    REQUIRE(wanted_[0].size() > 100);
    for (auto* probe : probes()) probe->regain();
  }

  // What is wrong in spite of the time that there was; "" if all is right.
  std::string play(const Steps& steps) {
    unsigned takes = nothing;
    for (const auto& step : steps)
      if (step.vanishing != nullptr) takes |= step.vanishing->takes;
    for (auto* probe : probes()) probe->lose(takes);
    for (const auto& [vanishing, pause] : steps) {
      if (vanishing == nullptr) {
        second_ = !second_;
        manifests_.put(rival(second_));
      } else {
        cluster_.netns().inside([command = vanishing->command] {
          return shell(fmt::format("{{ {}; }} 2>/dev/null; true", command));
        });
      }
      std::this_thread::sleep_for(pause);
    }
    return verdict(told(steps));
  }

  void check_end() {
    for (auto* probe : probes()) probe->stop();
    for (auto* probe : probes()) {
      CHECK_THAT(probe->verdict_of_all(), Catch::Equals(""));
      CHECK(probe->served() > 5);
    }
    CHECK(daemon_.terminate() == 0);
  }

 private:
  std::string verdict(const std::string& story) {
    const auto begin = Clock::now();
    std::string wrong;
    if (!eventually([&] { return (wrong = difference(wanted_[second_ ? 1 : 0], state())).empty(); },
                    kSoon))
      return wrong + last_log();
    const std::chrono::duration<double> kernel = Clock::now() - begin;
    if (!daemon_.runs()) return "the daemon ended\n" + last_log();
    for (auto* probe : probes()) probe->regain();
    for (const auto* probe : probes())
      if (wrong = probe->verdict(); !wrong.empty()) return wrong + "\n" + last_log();
    const std::chrono::duration<double> all = Clock::now() - begin;
    std::puts(fmt::format("{}right after {:.1f} s, asked after {:.1f} s", story, kernel.count(),
                          all.count())
                  .c_str());
    std::fflush(stdout);
    return "";
  }

  std::string last_log() const {
    const auto log = daemon_.log();
    return log.substr(log.size() - std::min<std::size_t>(log.size(), 6000));
  }

  std::vector<std::string> state() const {
    auto lines = kernel_lines(cluster_.netns());
    cluster_.netns().inside([&] {
      for (const char* key : {"net/ipv4/vs/conntrack", "net/ipv4/vs/expire_nodest_conn",
                              "net/ipv4/vs/expire_quiescent_template", "net/ipv4/ip_forward"})
        lines.push_back(netlink::Sysctl().read(key).value_or("unreadable"));
    });
    return lines;
  }

  std::vector<std::string> settled_state() const {
    auto before = state();
    REQUIRE(eventually([&] {
      const auto last = std::exchange(before, state());
      return last == before;
    }));
    return before;
  }

  std::array<Probe*, 3> probes() { return {&inside_, &node_port_, &pod_}; }

  Cluster cluster_{{.local_pods = 3, .remote_pods = 0}};
  Manifests manifests_;
  Daemon daemon_{cluster_.netns(), manifests_.flags()};
  std::vector<std::string> wanted_[2];
  bool second_ = true;  // of rival(), which is there now
  Probe inside_{"a client of the cluster IP", cluster_.client(), ip("10.96.0.9"), 80,
                virtual_services | bindings | forwarding | kMasquerading};
  Probe node_port_{"a client of the node port", cluster_.client(), cluster_.node().v4, 30080,
                   virtual_services | forwarding | kMasquerading};
  // A pod is not masqueraded: rules that go cost it nothing. It is no endpoint of "web".
  Probe pod_{"a pod that asks the cluster IP", cluster_.local(3), ip("10.96.0.9"), 80,
             virtual_services | bindings | forwarding | sets | tracking};
};

// As few of the steps as go wrong in a world of their own; all if they do not go wrong there.
Steps least_of(const Steps& steps) {
  const auto fails = [](const Steps& some) { return !VanishWorld().play(some).empty(); };
  return shrink(steps, fails, 5);
}

TEST_CASE("kernel: vanish: whole tables go, come back, and cost what needs them",
          "[vanish][random]") {
  const std::chrono::seconds time(environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  const auto first = static_cast<std::uint32_t>(environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  std::optional<VanishWorld> world(std::in_place);
  const auto end = Clock::now() + time;
  for (std::uint32_t seed = first; seed < first + 4 || Clock::now() < end; ++seed) {
    const auto steps = steps_of(seed);
    const auto wrong = world->play(steps);
    if (wrong.empty()) continue;
    world.reset();
    FAIL("IPVS_PROXIER_SOAK_SEED=" << seed << ": " << told(steps)
                                   << "\nat least: " << told(least_of(steps)) << "\n"
                                   << wrong);
  }
  world->check_end();
}

}  // namespace
}  // namespace ipvsproxier::test
