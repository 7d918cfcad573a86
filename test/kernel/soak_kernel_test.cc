// The soak: seeded random changes of an API server's objects, with random faults of the server and
// interference with the kernel. At every quiet point the kernel must equal what a fresh run makes
// of the same objects in an empty namespace; whenever the first cluster comes back, descriptors and
// memory of the daemon must be what they were.
//
// IPVS_PROXIER_SOAK_SECONDS (120) and IPVS_PROXIER_SOAK_SEED (1) say how long and with what luck.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/manifests.h"
#include "test/kernel/netns.h"
#include "test/kernel/random_node.h"
#include "test/support/api_server/api_server.h"
#include "test/support/api_server/kubeconfig.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::test {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

template <typename List>
const auto& pick(RandomCluster& random, const List& list) {
  return list.at(static_cast<std::size_t>(random.number(0, static_cast<int>(list.size()) - 1)));
}

// --- faults of the server
// -------------------------------------------------------------------------

struct Trouble {
  const char* name;
  std::function<void(ApiServer&, RandomCluster&)> begin;
};

FaultAnswer answer(int code, std::optional<int> retry_after = std::nullopt) {
  return {.code = code, .retry_after_seconds = retry_after, .times = 3};
}

// Of one resource or of all.
void misbehave(ApiServer& server, RandomCluster& random, const Faults& faults) {
  if (random.chance(50))
    server.set_faults(faults);
  else
    server.set_faults(pick(random, kResources), faults);
}

template <typename Fn>
Trouble faulty(const char* name, Fn&& faults) {
  return {name, [faults](ApiServer& server, RandomCluster& random) {
            misbehave(server, random, faults(random));
            // What runs already is hit by the faults of bodies; answers need new requests.
            if (random.chance(70)) server.end_watches();
          }};
}

const std::vector<Trouble>& troubles() {
  using R = RandomCluster;
  static const std::vector<Trouble> kTroubles{
      {"none", [](ApiServer&, R&) {}},
      faulty("torn", [](R& r) { return Faults{.tear = static_cast<std::size_t>(r.number(1, 9))}; }),
      faulty("slow", [](R&) { return Faults{.bytes_per_second = 3000}; }),
      faulty("cut",
             [](R& r) { return Faults{.cut_after = static_cast<std::size_t>(r.number(0, 4000))}; }),
      faulty("silent", [](R&) { return Faults{.silent = true}; }),
      faulty("silent answers", [](R&) { return Faults{.silent_answer = true}; }),
      faulty("malformed", [](R&) { return Faults{.malformed = true}; }),
      faulty("duplicates", [](R&) { return Faults{.duplicate = true}; }),
      faulty("reordered", [](R&) { return Faults{.reorder = true}; }),
      faulty("bookmarks only", [](R&) { return Faults{.bookmarks_only = true}; }),
      faulty("401", [](R&) { return Faults{.answers = {answer(401)}}; }),
      faulty("410", [](R&) { return Faults{.answers = {answer(410)}}; }),
      faulty("429", [](R&) { return Faults{.answers = {answer(429, 1)}}; }),
      faulty("500 and 503",
             [](R&) {
               return Faults{.answers = {answer(500), answer(503)}};
             }),
      {"resets", [](ApiServer& server, R&) { server.reset_connections(); }},
      {"vanished", [](ApiServer& server, R&) { server.vanish(); }},
      {"stopped", [](ApiServer& server, R&) { server.stop(); }},
      {"expired",
       [](ApiServer& server, R& random) {
         server.compact();
         server.expire_watches(pick(random, kResources));
       }},
      {"compacted and ended",
       [](ApiServer& server, R&) {
         server.compact();
         server.end_watches();
       }},
      {"without streaming lists",
       [](ApiServer& server, R&) {
         server.set_streaming_lists(false);
         server.compact();
         server.expire_watches();
       }},
  };
  return kTroubles;
}

void end_trouble(ApiServer& server) {
  server.clear_faults();
  server.reappear();
  server.set_streaming_lists(true);
}

// At once, for whoever watches a long soak.
void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

// --- the daemon's process
// -------------------------------------------------------------------------

std::size_t descriptors_of(pid_t pid) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid)))
    ++count;
  return count;
}

// --- the soak
// -------------------------------------------------------------------------------------

class Soak {
 public:
  explicit Soak(std::uint32_t seed) : random_(seed), first_(random_.cluster(25)) {
    furnish_node(netns_);
    auto server = netns_.inside([&] { return ApiServer::start({.seed = seed}); });
    REQUIRE(server);
    server_ = *std::move(server);
    std::ofstream(kubeconfig_) << kubeconfig({.server = server_->url()});
    manifests_.configure(fmt::format(
        "clientConnection: {{kubeconfig: {}}}\nipvs: {{syncPeriod: 4s, scheduler: {}}}\n"
        "iptables: {{masqueradeAll: {}}}\ndetectLocalMode: ClusterCIDR\n"
        "clusterCIDR: \"10.244.0.0/16,fd00:244::/48\"\n",
        kubeconfig_.string(), random_.chance(50) ? "rr" : "mh", random_.chance(30)));
    manifests_.remove("nodes");
    first_.node = furnished_node();
    cluster_ = first_;
    tell();
    daemon_.start();
    REQUIRE(daemon_.logs("synced:"));
  }

  // One trouble, some changes, then quiet.
  void round() {
    const auto& trouble = pick(random_, troubles());
    story_ = fmt::format("round {}: {}", ++rounds_, trouble.name);
    trouble.begin(*server_, random_);
    const int changes = random_.number(1, 6);
    for (int i = 0; i < changes; ++i) {
      change();
      if (random_.chance(15)) interfere();
      std::this_thread::sleep_for(milliseconds(random_.number(0, 400)));
    }
    end_trouble(*server_);
    REQUIRE(netns_.inside([&] { return server_->resume(); }));
    const auto ended = Clock::now();
    check_quiet();
    say(fmt::format("{}: right {:.1f} s after its end", story_,
                    std::chrono::duration<double>(Clock::now() - ended).count()));
  }

  // The first cluster again: its cost must be what it was.
  void come_home() {
    story_ = fmt::format("after round {}: the first cluster", rounds_);
    cluster_ = first_;
    tell();
    check_quiet();
    if (++homecomings_ == 1) return;  // caches and pools are still filled by the first rounds
    const auto kilobytes = daemon_.memory().now / 1024;
    if (homecomings_ == 2) {
      descriptors_ = descriptors_of(daemon_.pid());
      kilobytes_ = kilobytes;
    }
    INFO(story_);
    // Connections that ended may wait for their peer.
    CHECK(eventually([&] { return descriptors_of(daemon_.pid()) <= descriptors_; }, 60'000));
    CHECK(kilobytes < kilobytes_ + kilobytes_ / 5 + 2048);
    say(fmt::format("{}: {} descriptors, {} kB", story_, descriptors_of(daemon_.pid()), kilobytes));
  }

  void check_end() {
    CHECK(daemon_.runs());
    CHECK(daemon_.terminate() == 0);
    CHECK(homecomings_ >= 2);
  }

 private:
  void change() {
    if (random_.chance(50))
      random_.change(cluster_);
    else
      random_.tweak(cluster_);
    cluster_.node = first_.node;
    if (random_.chance(30)) cluster_.node->zone = random_.chance(50) ? "z1" : "z2";
    tell();
  }

  // The server has what the cluster has.
  void tell() {
    auto now = served_objects(cluster_);
    serve(*server_, told_, now);
    told_ = std::move(now);
  }

  // Somebody else's hand in the kernel.
  void interfere() {
    static const std::vector<std::string> kInterference{
        "ipvsadm -C",
        "for set in $(ipset list -n); do ipset flush $set; done",
        "ip addr flush dev kube-ipvs0",
        "iptables -t nat -F KUBE-SERVICES; ip6tables -t nat -F KUBE-SERVICES",
    };
    const auto& command = pick(random_, kInterference);
    story_ += "; " + command;
    netns_.inside([&] { return shell(command + " 2>/dev/null; true"); });
  }

  void check_quiet() {
    INFO(story_);
    const auto expected = lines_from_scratch(*server_, told_, manifests_);
    std::string wrong;
    const bool right = eventually(
        [&] {
          wrong = difference(expected, kernel_lines(netns_));
          return wrong.empty() || !daemon_.runs();
        },
        90'000);
    const auto log = daemon_.log();
    INFO(log.substr(log.size() > 8000 ? log.size() - 8000 : 0));
    REQUIRE(wrong == "");
    REQUIRE(right);
    REQUIRE(daemon_.runs());
  }

  RandomCluster random_;
  model::ClusterState first_;
  model::ClusterState cluster_;
  ServedObjects told_;
  Netns netns_;
  Manifests manifests_;
  TempDir dir_;
  std::filesystem::path kubeconfig_ = dir_.path() / "kubeconfig";
  std::unique_ptr<ApiServer> server_;
  Daemon daemon_{netns_, {"--config", manifests_.config_file().string()}};
  std::string story_ = "the start";
  int rounds_ = 0;
  int homecomings_ = 0;
  std::size_t descriptors_ = 0;  // at the second homecoming
  std::size_t kilobytes_ = 0;
};

TEST_CASE("soak: the kernel is right at every quiet point", "[soak]") {
  const auto end = Clock::now() + seconds(environment_number("IPVS_PROXIER_SOAK_SECONDS", 120));
  const auto seed = environment_number("IPVS_PROXIER_SOAK_SEED", 1);
  INFO("IPVS_PROXIER_SOAK_SEED=" << seed);
  Soak soak(static_cast<std::uint32_t>(seed));
  for (int round = 0; Clock::now() < end || round < 5; ++round) {
    if (round % 4 == 0) soak.come_home();
    soak.round();
  }
  soak.come_home();
  soak.check_end();
}

}  // namespace
}  // namespace ipvsproxier::test
