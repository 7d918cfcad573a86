// Random histories of a server, told with random ends, statuses, errors of the transport, silence,
// broken bytes, and events that come twice, late or never: whenever the watch has told everything,
// the client has what the server has, and nothing was ever wrong on the way. Of an event that never
// comes nobody can know before the next list: then the server is asked for one.
//
// IPVS_PROXIER_SOAK_SECONDS and IPVS_PROXIER_SOAK_SEED say how long and with what luck.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "test/support/random_run.h"
#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::ReflectorRig;

// RFC 9110, and what proxies before an API server make up. 1xx and redirects that are followed do
// not reach a client.
constexpr std::array kStatuses = {204, 301, 400, 401, 403, 404, 405, 408, 409, 410,
                                  413, 422, 429, 500, 501, 502, 503, 504, 520, 599};
// What CurlTransport makes of curl's codes (http_transfer.cc).
constexpr std::array kErrors = {netlink::ErrorKind::io,        netlink::ErrorKind::timeout,
                                netlink::ErrorKind::malformed, netlink::ErrorKind::denied,
                                netlink::ErrorKind::missing,   netlink::ErrorKind::busy};
const std::string kExpired =
    test::event_text("ERROR", test::status_text(410, "Expired", "too old"));
const std::array<std::string, 6> kBodies = {"<html>no backend</html>",
                                            "{\"kind\":\"Ser",
                                            "null",
                                            "[]",
                                            test::status_text(500, "InternalError", "etcd"),
                                            test::status_text(504, "Timeout", "late")};

class RandomServer {
 public:
  RandomServer(ReflectorRig& rig, std::mt19937& random) : rig_(rig), random_(random) {}

  // Changes something.
  void change() {
    const auto name = "s" + std::to_string(below(6));
    ++version_;
    const auto address =
        "10.0." + std::to_string(version_ / 256) + "." + std::to_string(version_ % 256);
    const bool is_there = state_.contains(name);
    const bool goes = is_there && below(3) == 0;
    history_.push_back({version_, goes       ? test::deleted(name, version_, address)
                                  : is_there ? test::modified(name, version_, address)
                                             : test::added(name, version_, address)});
    if (goes)
      state_.erase(name);
    else
      state_[name] = {version_, address};
    ever_[name].insert(goes ? "gone" : address);
  }
  void forget_history() { oldest_ = version_; }

  // Answers what is asked for, or goes on with the watch; sometimes not as it should.
  void act(bool is_kind) {
    if (!rig_.transport.is_waited_for()) {
      rig_.timers.advance(rig_.wait().value_or(0ms));
      return;
    }
    auto& call = rig_.transport.last();
    if (&call != call_) begin(call);
    if (!is_kind && below(6) == 0) return misbehave();
    if (!call.is_open()) return;
    if (!head_told_) {
      head_told_ = true;
      if (!call.head(200)) return;
    }
    if (is_list_) return tell_list();
    tell_events(is_kind);
  }
  // Something will never be told by a watch.
  bool has_lost() const { return lost_ || !late_.empty(); }
  // The watch that goes on is told to list again.
  void expire() {
    call_->send(kExpired);
    lost_ = false;
  }
  bool has_told_all() const {
    return call_ != nullptr && call_->is_open() && !is_list_ && head_told_ && told_ == version_;
  }

  std::map<std::string, std::string> objects() const {
    std::map<std::string, std::string> objects;
    for (const auto& [name, object] : state_) objects[name] = object.second;
    return objects;
  }
  bool ever_had(const std::string& name, const std::string& address) {
    return ever_[name].contains(address);
  }

 private:
  unsigned below(unsigned bound) {
    return std::uniform_int_distribution<unsigned>(0, bound - 1)(random_);
  }
  template <typename List>
  const auto& pick(const List& list) {
    return list.at(below(static_cast<unsigned>(list.size())));
  }
  bool asks(const std::string& what) const {
    return call_->request().target.find(what) != std::string::npos;
  }
  std::string parameter(const std::string& name) const {
    const auto& target = call_->request().target;
    const auto at = target.find(name + "=");
    if (at == std::string::npos) return "";
    return target.substr(at + name.size() + 1, target.find('&', at) - at - name.size() - 1);
  }

  void begin(test::ScriptedTransport::Call& call) {
    call_ = &call;
    lost_ = lost_ || !late_.empty();
    late_.clear();
    head_told_ = false;
    is_list_ = !asks("resourceVersion=");
    told_ = is_list_ ? 0 : std::stoul(parameter("resourceVersion"));
    if (is_list_ && !asks("continue=") && !asks("limit=1&") && !ends_with("limit=1")) lost_ = false;
  }

  void misbehave() {
    const bool may_talk = head_told_ && call_->is_open();
    switch (below(9)) {
      case 0:
        if (call_->is_open()) call_->fail("broken", pick(kErrors));
        return;
      case 1:
        if (may_talk) call_->finish();
        return;
      case 2:
        if (may_talk) call_->send("{\"type\":\"MODI");
        if (call_->is_open()) call_->fail("reset");
        return;
      case 3:
        if (may_talk) call_->send("}");
        return;
      case 4:
        if (!head_told_ && call_->is_open()) refuse();
        return;
      case 5:  // an answer that comes late, or too late
        rig_.timers.advance(std::chrono::seconds(below(200)));
        return;
      case 6:
        if (may_talk && call_->send(pick(kBodies))) call_->finish();
        return;
      case 7:
        if (!head_told_ && call_->is_open()) call_->answer(200, pick(kBodies));
        return;
      default:
        if (may_talk && !is_list_) call_->send(kExpired);
    }
  }

  // With any status, any body, and perhaps without its end.
  void refuse() {
    std::optional<std::chrono::seconds> retry_after;
    if (below(4) == 0) retry_after = std::chrono::seconds(below(5));
    if (!call_->head(pick(kStatuses), retry_after) || !call_->send(pick(kBodies))) return;
    if (below(4) == 0)
      call_->fail("broken", pick(kErrors));
    else
      call_->finish();
  }

  void tell_list() {
    auto& call = *call_;
    if (asks("sendInitialEvents") && no_streams_) {
      // The head said 200, so this is a server that ends at once.
      call.finish();
      return;
    }
    if (asks("sendInitialEvents")) {
      std::string text;
      for (const auto& [name, object] : state_)
        text += test::added(name, object.first, object.second);
      told_ = version_;
      is_list_ = false;
      call.send(text + test::list_end(version_));
      return;
    }
    // Pages of two, all of the state at the first.
    if (!asks("continue=")) {
      paged_.assign(state_.begin(), state_.end());
      paged_version_ = version_;
    }
    const auto from = asks("continue=") ? std::stoul(parameter("continue")) : 0;
    std::vector<std::string> items;
    for (auto i = from; i < std::min(from + 2, paged_.size()); ++i)
      items.push_back(
          test::service_text(paged_[i].first, paged_[i].second.first, paged_[i].second.second));
    const auto next = from + 2 < paged_.size() ? std::to_string(from + 2) : std::string();
    if (call.send(test::list_text(paged_version_, items, next))) call.finish();
  }

  void tell_events(bool is_kind) {
    if (told_ < oldest_) {
      call_->send(kExpired);
      return;
    }
    auto events = std::exchange(late_, {});
    for (const auto& [version, event] : history_) {
      if (version <= told_) continue;
      told_ = version;
      if (!is_kind && below(15) == 0) {
        lost_ = true;
        continue;
      }
      if (!is_kind && below(10) == 0) {
        late_.push_back(event);
        continue;
      }
      events.push_back(event);
      if (below(4) == 0) events.push_back(event);
      if (!is_kind && below(2) == 0) break;
    }
    if (below(3) == 0) std::reverse(events.begin(), events.end());
    std::string text;
    for (const auto& event : events) text += event;
    for (const auto& [version, event] : history_)  // long ago
      if (version <= told_ && below(20) == 0) text += event;
    if (below(3) == 0) {
      text += test::bookmark(told_);
      lost_ = lost_ || !late_.empty();  // which it covers
    }
    call_->send(text);
  }

  bool ends_with(const std::string& what) const { return call_->request().target.ends_with(what); }

  struct Event {
    unsigned long version;
    std::string text;
  };

  ReflectorRig& rig_;
  std::mt19937& random_;
  unsigned long version_ = 10;
  unsigned long oldest_ = 10;
  std::map<std::string, std::pair<unsigned long, std::string>> state_;
  std::map<std::string, std::set<std::string>> ever_;
  std::vector<Event> history_;
  const bool no_streams_ = below(2) == 0;

  test::ScriptedTransport::Call* call_ = nullptr;
  std::vector<std::string> late_;  // events of this watch
  bool lost_ = false;              // events, since the last list
  bool head_told_ = false;
  bool is_list_ = true;
  unsigned long told_ = 0;
  std::vector<std::pair<std::string, std::pair<unsigned long, std::string>>> paged_;
  unsigned long paged_version_ = 0;
};

// All that happens in it follows from its number.
struct Step {
  bool quiet = false;
  std::uint32_t luck = 0;
};

struct Totals {
  std::size_t lists = 0;
  std::size_t failures = 0;
};

class History {
 public:
  explicit History(std::uint32_t seed) : random_(seed) {
    rig_.log.set_level(spdlog::level::off);
    rig_.transport.piece = [this] { return below(2) == 0 ? std::size_t{5} : std::size_t{300}; };
  }

  // What is wrong; "" if nothing is.
  std::string run(const std::vector<Step>& steps, Totals& totals) {
    std::string wrong;
    try {
      for (std::size_t i = 0; i < steps.size() && wrong.empty(); ++i) {
        random_.seed(steps[i].luck);
        wrong = steps[i].quiet ? be_quiet() : go_on();
        if (!wrong.empty()) wrong += fmt::format(" (step {})", i);
      }
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    totals.lists += rig_.reflector.status().lists;
    totals.failures += rig_.reflector.status().failures;
    return wrong;
  }

 private:
  unsigned below(unsigned bound) {
    return std::uniform_int_distribution<unsigned>(0, bound - 1)(random_);
  }

  std::string go_on() {
    for (auto n = below(3); n > 0; --n) server_.change();
    if (below(15) == 0) server_.forget_history();
    server_.act(false);
    for (const auto& [name, address] : rig_.objects) {
      if (!server_.ever_had(name, address)) return name + " was never " + address;
      // Later versions have greater addresses.
      const auto now = netlink::IpAddress::parse(address).value();
      if (newest_[name] > now) return name + " went back to " + address;
      newest_[name] = now;
    }
    return "";
  }

  std::string be_quiet() {
    for (const bool again : {false, true}) {
      for (int i = 0; i < 200 && !server_.has_told_all(); ++i) server_.act(true);
      if (!server_.has_told_all()) return "it does not ask for all";
      if (again || !server_.has_lost()) break;
      server_.expire();
    }
    if (rig_.objects != server_.objects()) return "it has something else";
    if (rig_.reflector.status().objects != rig_.objects.size()) return "it counts wrong";
    return "";
  }

  std::mt19937 random_;
  ReflectorRig rig_;
  RandomServer server_{rig_, random_};
  std::map<std::string, netlink::IpAddress> newest_;
};

std::vector<Step> random_steps(std::mt19937& random) {
  std::vector<Step> steps;
  for (int quiet = 0; quiet < 6; ++quiet) {
    for (int i = 0; i < 40; ++i) steps.push_back({false, static_cast<std::uint32_t>(random())});
    steps.push_back({true, static_cast<std::uint32_t>(random())});
  }
  return steps;
}

TEST_CASE("at every quiet point the client has what the server has", "[random]") {
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds time(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  auto seed = static_cast<std::uint32_t>(test::environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  Totals totals;
  for (int n = 0; n < 60 || std::chrono::steady_clock::now() - begin < time; ++n, ++seed) {
    std::mt19937 random(seed);
    auto steps = random_steps(random);
    auto wrong = History(seed).run(steps, totals);
    if (wrong.empty()) continue;
    Totals none;
    steps = test::shrink(steps,
                         [&](const auto& some) { return !History(seed).run(some, none).empty(); });
    wrong = History(seed).run(steps, none);
    for (const auto& step : steps)
      wrong += fmt::format("\n  {} {}", step.quiet ? "quiet" : "go on", step.luck);
    FAIL_CHECK("IPVS_PROXIER_SOAK_SEED=" << seed << ": " << wrong);
    break;
  }
  // It was a test of something.
  CHECK(totals.lists > 120);
  CHECK(totals.failures > 500);
}

}  // namespace
}  // namespace ipvsproxier::watch
