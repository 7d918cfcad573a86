#pragma once

// A Reflector of Services on a scripted transport and a clock that is turned by hand.

#include <chrono>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include "proxier/watch/reflector.h"
#include "test/fakes/manual_timers.h"
#include "test/fakes/scripted_transport.h"
#include "test/support/wire_text.h"

namespace ipvsproxier::test {

using Words = std::vector<std::string>;

// "web 10.0.0.1", "web gone", by name.
inline Words words_of(const model::Changes& changes) {
  Words words;
  for (const auto& [name, service] : changes.services)
    words.push_back(name.name + " " +
                    (service ? service->cluster_ips.at(0).to_string() : std::string("gone")));
  return words;
}

// What is asked for, after the path.
inline const std::string kStreamingList =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    "&timeoutSeconds=N";
inline const std::string kPage = "limit=500";
inline const std::string kQuestion = "limit=1";
inline std::string watch_from(unsigned long version) {
  return "watch=1&allowWatchBookmarks=true&resourceVersion=" + std::to_string(version) +
         "&timeoutSeconds=N";
}

// Two Services, as events.
inline const std::string kTwo = added("db", 7, "10.0.0.2") + added("web", 3, "10.0.0.1");

struct ReflectorRig {
  ScriptedTransport transport;
  ManualTimers timers;
  std::ostringstream log_text;
  spdlog::logger log{"test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_text)};
  watch::WatchLog watch_log{timers, log};
  double random = 0;
  watch::RemovalBrake::Wait brake;
  std::vector<Words> news;  // each time something was handed over
  std::map<std::string, std::string> objects;
  std::map<std::string, std::string> unreadable;  // why
  watch::Reflector reflector{
      watch::Resource{.name = "services", .path = "/api/v1/services", .selector = ""},
      transport,
      timers,
      [this] { return random; },
      watch::RemovalBrake(brake),
      log,
      watch_log,
      [this](const model::Changes& changes) { take(changes); }};

  explicit ReflectorRig(watch::RemovalBrake::Wait wait = {}) : brake(wait) {
    log.set_pattern("%l %v");
    log.set_level(spdlog::level::info);
    reflector.start();
  }

  void take(const model::Changes& changes) {
    news.push_back(words_of(changes));
    for (const auto& [key, why] : changes.unreadable) {
      if (why)
        unreadable[key.name.name] = *why;
      else
        unreadable.erase(key.name.name);
    }
    for (const auto& [name, service] : changes.services) {
      if (service)
        objects[name.name] = service->cluster_ips.at(0).to_string();
      else
        objects.erase(name.name);
    }
  }

  // Everything since the last call.
  std::vector<Words> take_news() { return std::exchange(news, {}); }
  // The queries of requests since the last call.
  Words take_queries() {
    auto targets = transport.take_targets();
    for (auto& target : targets) target.erase(0, target.find('?') + 1);
    return targets;
  }
  std::string take_log() {
    watch_log.tell();
    auto text = log_text.str();
    log_text.str("");
    return text;
  }
  // Lets pass what was to be done at once.
  void settle() { timers.advance(std::chrono::seconds(0)); }
  // How long until the next request; nothing if there is one now, or none planned.
  std::optional<std::chrono::milliseconds> wait() const {
    const auto left = timers.left("services begins");
    if (!left) return std::nullopt;
    return std::chrono::duration_cast<std::chrono::milliseconds>(*left);
  }
  // The store's version as it is now: what the client asks before it goes on with a watch that may
  // have ended for a change of it.
  void answer_question(unsigned long version) {
    transport.last().answer(200, list_text(version, {}, "more"));
  }
  // The streaming list is there, the watch goes on.
  void list(unsigned long version, const std::string& events) {
    settle();
    transport.last().head(200);
    transport.last().send(events + list_end(version));
  }
};

// Listed at version 10, watching; nothing of that is left to take.
struct WatchingRig : ReflectorRig {
  WatchingRig() {
    list(10, kTwo);
    take_queries();
    take_news();
    take_log();
  }
  // The watch ends as it should and the next one is asked for.
  void next_watch() {
    timers.advance(std::chrono::seconds(150));
    transport.last().send(" ");
    timers.advance(std::chrono::seconds(150));
    transport.last().finish();
    settle();
    take_queries();
  }
};

}  // namespace ipvsproxier::test
