#pragma once

// EventRecorder: tells the API server Events (events.k8s.io/v1), as client-go's recorder does. The
// main thread's. Nobody waits for it: what cannot be told is logged and forgotten.
//
// Events that are alike in everything but their note are one with a series: the first repeat is
// told at once, those after it are counted and told every half hour, and when none has come for six
// minutes (looked at every six minutes). Then the next is a new Event.
//
// One request at a time. What does not arrive is tried again after 10 s, up to a quarter more, 12
// times in all, and so is what the server refuses with a Retry-After (not before that) or, once,
// with 401, for which credentials are read again. Everything else that it refuses is over.
// An Event that is patched and not there any more is posted anew.

#include <chrono>
#include <compare>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include <spdlog/logger.h>

#include "proxier/loop/timers.h"
#include "proxier/watch/cluster_event.h"
#include "proxier/watch/transport.h"

namespace ipvsproxier::watch {

class EventRecorder final : private ResponseHandler {
 public:
  using WallClock = std::function<EventRecord::Time()>;

  static constexpr std::size_t kMostKept = 1000;  // more at a time are not told
  static constexpr unsigned kAttempts = 12;

  // What it uses outlives it; `random` answers numbers in [0, 1). `host` is this machine's name.
  // Its deadlines are named "events ...".
  EventRecorder(std::string host, Transport& transport, loop::Timers& timers,
                std::function<double()> random, spdlog::logger& log,
                WallClock wall = std::chrono::system_clock::now);
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;
  ~EventRecorder() override;

  void record(ClusterEvent event);

  // Whether nothing is to be told now, or again later because it did not arrive.
  bool idle() const { return busy_ == 0; }
  // Called each time that becomes true; must not destroy this.
  void on_idle(std::function<void()> then) { on_idle_ = std::move(then); }

 private:
  using Key = std::tuple<EventLevel, std::string, std::string, ObjectReference>;
  struct Kept {
    EventRecord record;
    std::uint64_t number = 0;  // names its deadline
    std::uint32_t told = 0;    // the count that the server has; 0: it does not have the Event
    unsigned attempts = 0;     // that failed, in a row
    bool busy = false;         // in the queue, on its way or to be tried again
    bool wanted = false;       // there is something new to tell
    bool asked_again = false;  // after a 401
    bool ends = false;         // to be forgotten when this has been told
  };

  void on_head(const ResponseHead& head) override;
  void on_chunk(std::string_view chunk) override;
  void on_end(const netlink::Status& outcome) override;

  void tell(Kept& kept);
  void send_next();
  void take_answer(Kept& kept);
  void try_again(Kept& kept, const std::string& cause, std::chrono::milliseconds pause);
  void finish(Kept& kept);
  std::chrono::milliseconds pause();
  void look_at_series();
  std::string deadline_of(const Kept& kept) const;
  static Key key_of(const ClusterEvent& event);

  const std::string host_;
  Transport& transport_;
  loop::Timers& timers_;
  const std::function<double()> random_;
  spdlog::logger& log_;
  const WallClock wall_;
  std::function<void()> on_idle_ = [] {};

  std::map<Key, Kept> kept_;
  std::size_t busy_ = 0;
  std::deque<Kept*> queue_;
  std::uint64_t numbers_ = 0;
  unsigned looks_ = 0;    // at the series
  bool is_full_ = false;  // which was told

  // The request that goes on.
  Kept* sending_ = nullptr;
  std::unique_ptr<Exchange> exchange_;
  Method method_ = Method::post;
  std::uint32_t sent_count_ = 0;
  ResponseHead head_;
  std::string refusal_;  // the body that came with an answer that is no success
};

}  // namespace ipvsproxier::watch
