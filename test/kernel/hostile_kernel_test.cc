// Hostile objects, a tenth of all, through the whole daemon: test API server, scratch kernel, every
// listing of ipvsctl, metrics, health, Events. They cost themselves.
//
// IPVS_PROXIER_SOAK_SEED and IPVS_PROXIER_SOAK_SECONDS say with what luck and how long. A failure
// prints the seed and the hostile objects that it takes.

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/object_json.h"
#include "test/kernel/hostile_node.h"
#include "test/kernel/kernel_state.h"
#include "test/support/random_run.h"

namespace ipvsproxier::test {
namespace {

using Cases = std::vector<HostileCase>;
using Clock = std::chrono::steady_clock;

constexpr int kServices = 40;
constexpr int kClaimants = 50;

// Seconds since the last call, for whoever wonders what takes long.
double lap() {
  static auto last = Clock::now();
  const auto now = Clock::now();
  return std::chrono::duration<double>(now - std::exchange(last, now)).count();
}

// Everything that is held while the objects are there, and after they are gone. "": all.
std::string what_fails(HostileNode& node, const Cases& cases, std::uint32_t luck) {
  std::string wrong;
  const auto all_right = [&](auto... looks) {
    return wrong.empty() && ((wrong = looks()).empty() && ...);
  };
  lap();
  node.put(cases);
  const auto beside = node.seconds_of_change();
  if (!beside) wrong = node.daemon().runs() ? "an ordinary change takes too long" : "it ended";
  node.change_cluster();
  all_right([&] { return node.wrong_in_kernel(false); },  //
            [&] { return node.wrong_health(); },          //
            [&] { return node.wrong_requests(); });
  fmt::print("programmed in {:.1f} s, ", lap());
  all_right([&] { return node.wrong_listings(luck, cases); });
  node.server().clear_requests();                      // `ipvsctl plan` lists
  all_right([&] { return node.wrong_metrics(); },      //
            [&] { return node.wrong_events(cases); },  //
            [&] { return node.missing_in_kernel(); });
  fmt::print("looked at in {:.1f} s, ", lap());
  node.remove(cases);
  all_right([&] { return node.wrong_in_kernel(true); },  //
            [&] { return node.wrong_health(); },         //
            [&] { return node.wrong_requests(); },       //
            [&] { return node.wrong_log(); });
  fmt::print("gone in {:.1f} s\n", lap());
  if (const auto alone = wrong.empty() ? node.seconds_of_change() : std::nullopt)
    fmt::print("an ordinary change: {:.3f} s beside them, {:.1f} times that without\n", *beside,
               *beside / *alone);
  return wrong;
}

std::string told(const Cases& cases) {
  std::string text;
  for (const auto& one : cases) {
    text += fmt::format("\n{} {}, {} objects:", to_string(one.hostility), one.number,
                        one.objects.size());
    for (std::size_t i = 0; i < one.objects.size() && i < 2; ++i)
      text += "\n  " + one.objects[i].text().substr(0, 500);
  }
  return text;
}

// What is known is printed before it is shrunk: that takes time, and ends with the daemon.
void check(HostileNode& node, const Cases& cases, std::size_t round, std::uint32_t luck) {
  constexpr auto kMostShrinking = std::chrono::minutes(4);
  auto wrong = what_fails(node, cases, luck);
  if (wrong.empty()) return;
  const auto where = fmt::format("IPVS_PROXIER_SOAK_SEED={}, round {}: ", luck, round);
  fmt::print("{}{}{}\n", where, wrong, told(cases));
  std::fflush(stdout);
  const auto end = Clock::now() + kMostShrinking;
  if (!node.daemon().runs()) FAIL(where << wrong << told(cases));
  if (const auto without = what_fails(node, {}, luck); !without.empty())
    FAIL(where << wrong << "\nafter them, without any: " << without << told(cases));
  const auto fails = [&](const Cases& some) {
    if (!node.daemon().runs() || Clock::now() > end) return false;
    const auto now = what_fails(node, some, luck);
    if (!now.empty()) wrong = now;  // of these cases
    return !now.empty();
  };
  const auto least = shrink(cases, fails, 8);
  FAIL(where << wrong << told(least));
}

TEST_CASE("kernel: hostile objects cost themselves", "[hostile][random]") {
  const auto end =
      Clock::now() + std::chrono::seconds(environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  const auto seed = static_cast<std::uint32_t>(environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  HostileNode node(seed, kServices);
  std::size_t memory = 0;
  // Each kind once at least, the first ones again: what they took the first time is theirs no more.
  for (std::size_t round = 0; round < 3 || Clock::now() < end; ++round) {
    // As round 0 of a run with this seed, but for the cluster that there is by now.
    const auto luck = static_cast<std::uint32_t>(seed + round);
    HostileObjects hostile(luck, node.victims(), kClaimants);
    Cases cases;
    for (std::size_t i = 0; i < kHostilities / 2; ++i)
      cases.push_back(hostile.make(static_cast<Hostility>(luck % 2 * kHostilities / 2 + i)));
    node.put_node(hostile.node(api::to_json(*node.cluster().node)));
    check(node, cases, round, luck);
    if (round == 0) memory = node.daemon().memory().now;  // caches and pools are full
    fmt::print("round {}: {} kB, {} ticks\n", round, node.daemon().memory().now / 1024,
               node.processor_ticks());
    std::fflush(stdout);
  }
  CHECK(node.daemon().memory().now < memory + memory / 5 + (std::size_t{2} << 20U));
  CHECK(node.daemon().terminate() == 0);
}

// The slice of a case, whose first endpoint has another address each time.
class ChangingSlice {
 public:
  ChangingSlice(const HostileCase& one, bool v6) : object_(one.objects.at(1)), v6_(v6) {
    auto json = nlohmann::ordered_json::parse(object_.json);
    json["endpoints"][0]["addresses"] = {"RAW"};
    object_.json = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }

  const HostileObject& next() {
    ++changes_;
    object_.raw = v6_ ? fmt::format("\"fd00:245:1::{:x}\"", changes_)
                      : fmt::format("\"10.245.{}.{}\"", 100 + changes_ / 250, changes_ % 250 + 1);
    return object_;
  }

 private:
  HostileObject object_;
  bool v6_;
  int changes_ = 0;
};

// Ticks of the daemon until it has nothing more to do.
long settled_ticks(const HostileNode& node) {
  constexpr int kStill = 20;  // looks, each 10 ms after the other
  long ticks = node.processor_ticks();
  int still = 0;
  eventually([&] {
    const auto now = node.processor_ticks();
    still = now == ticks ? still + 1 : 0;
    ticks = now;
    return still >= kStill;
  });
  return ticks;
}

struct Churn {
  double ticks = 0;  // of the daemon, a change
  std::string wrong;
};

// So many changes, a hundred a second as far as the server gets there. Others are served meanwhile.
Churn churn(HostileNode& node, const HostileCase& one) {
  constexpr int kChanges = 30;
  node.put({one});
  const bool v6 = one.objects[1].json.find("\"IPv6\"") != std::string::npos;
  ChangingSlice slice(one, v6);
  const auto before = settled_ticks(node);
  auto next = Clock::now();
  Churn result;
  for (int i = 0; i < kChanges; ++i) {
    node.put(slice.next());
    next += std::chrono::milliseconds(10);
    std::this_thread::sleep_until(next);
  }
  result.wrong = node.missing_in_kernel();
  result.ticks = static_cast<double>(settled_ticks(node) - before) / kChanges;
  for (const auto& wrong : {node.wrong_health(), node.wrong_requests(), node.wrong_log()})
    if (result.wrong.empty()) result.wrong = wrong;
  node.remove({one});
  return result;
}

TEST_CASE("kernel: an object that changes a hundred times a second costs itself", "[hostile]") {
  HostileNode node(2, 10);
  HostileObjects hostile(2, node.victims());
  // Times the cost of a small one's change, which may be too little to measure: they take 1 to 4.
  constexpr double kBound = 10;
  constexpr double kLeastTicks = 0.5;
  const auto small = churn(node, hostile.make(Hostility::prefix_names));
  CHECK(small.wrong == "");
  fmt::print("small: {:.2f} ticks\n", small.ticks);
  for (const auto hostility : {Hostility::huge_annotations, Hostility::many_endpoints,
                               Hostility::many_slices, Hostility::many_ports}) {
    const auto result = churn(node, hostile.make(hostility));
    fmt::print("{}: {:.2f} ticks, {:.1f} s\n", to_string(hostility), result.ticks, lap());
    std::fflush(stdout);
    INFO(to_string(hostility));
    CHECK(result.wrong == "");
    CHECK(result.ticks < kBound * std::max(small.ticks, kLeastTicks));
  }
  CHECK(node.wrong_in_kernel(true) == "");
}

}  // namespace
}  // namespace ipvsproxier::test
