// Random histories of a server, told with random ends, 410s, repetitions and broken bytes: whenever
// the watch has told everything, the client has what the server has, and nothing was ever wrong on
// the way.

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/reflector_rig.h"

namespace ipvsproxier::watch {
namespace {

using namespace std::chrono_literals;
using test::ReflectorRig;

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
    head_told_ = false;
    is_list_ = !asks("resourceVersion=");
    told_ = is_list_ ? 0 : std::stoul(parameter("resourceVersion"));
  }

  void misbehave() {
    const bool may_talk = head_told_ && call_->is_open();
    switch (below(6)) {
      case 0:
        if (call_->is_open()) call_->fail("reset");
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
        if (!head_told_) call_->answer(below(2) == 0 ? 410 : 503, "");
        return;
      default:
        if (may_talk && !is_list_)
          call_->send(test::event_text("ERROR", test::status_text(410, "Expired", "too old")));
    }
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
      call_->send(test::event_text("ERROR", test::status_text(410, "Expired", "too old")));
      return;
    }
    std::vector<std::string> events;
    for (const auto& [version, event] : history_) {
      if (version <= told_) continue;
      events.push_back(event);
      told_ = version;
      if (below(4) == 0) events.push_back(event);
      if (!is_kind && below(2) == 0) break;
    }
    if (below(3) == 0) std::reverse(events.begin(), events.end());
    std::string text;
    for (const auto& event : events) text += event;
    for (const auto& [version, event] : history_)  // long ago
      if (version <= told_ && below(20) == 0) text += event;
    if (below(3) == 0) text += test::bookmark(told_);
    call_->send(text);
  }

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
  bool head_told_ = false;
  bool is_list_ = true;
  unsigned long told_ = 0;
  std::vector<std::pair<std::string, std::pair<unsigned long, std::string>>> paged_;
  unsigned long paged_version_ = 0;
};

TEST_CASE("at every quiet point the client has what the server has") {
  std::mt19937 random(Catch::rngSeed());
  const auto below = [&random](unsigned bound) {
    return std::uniform_int_distribution<unsigned>(0, bound - 1)(random);
  };
  std::size_t lists = 0;
  std::size_t failures = 0;
  for (int history = 0; history < 60; ++history) {
    INFO("history " << history);
    ReflectorRig rig;
    rig.log.set_level(spdlog::level::off);
    rig.transport.piece = [&] { return below(2) == 0 ? std::size_t{5} : std::size_t{300}; };
    RandomServer server(rig, random);
    std::map<std::string, netlink::IpAddress> newest;
    for (int quiet = 0; quiet < 6; ++quiet) {
      for (int i = 0; i < 40; ++i) {
        for (auto n = below(3); n > 0; --n) server.change();
        if (below(15) == 0) server.forget_history();
        server.act(false);
        for (const auto& [name, address] : rig.objects) {
          REQUIRE(server.ever_had(name, address));
          // Later versions have greater addresses.
          const auto now = netlink::IpAddress::parse(address).value();
          REQUIRE(newest[name] <= now);
          newest[name] = now;
        }
      }
      for (int i = 0; i < 200 && !server.has_told_all(); ++i) server.act(true);
      REQUIRE(server.has_told_all());
      REQUIRE(rig.objects == server.objects());
      REQUIRE(rig.reflector.status().objects == rig.objects.size());
    }
    lists += rig.reflector.status().lists;
    failures += rig.reflector.status().failures;
  }
  // It was a test of something.
  CHECK(lists > 120);
  CHECK(failures > 500);
}

}  // namespace
}  // namespace ipvsproxier::watch
