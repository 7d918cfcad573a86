#pragma once

// EventRecorder: sends Events (events.k8s.io/v1) to the API server, like client-go's recorder. Main
// thread only. No caller waits for it: an Event that cannot be sent is logged and dropped.
//
// Events that differ only in their note form one Event with a series. The first repeat is sent at
// once; later ones are counted, and the count is sent every half hour and after six minutes without
// a repeat (checked every six minutes). A repeat after that is a new Event.
//
// One request at a time. A request that does not arrive is repeated after 10 s (plus up to a
// quarter), 12 attempts in all; so is one that the server refuses with a Retry-After (not before
// that time) or, once, with 401, after the credentials were read again. Any other refusal is final.
// If an Event to patch no longer exists, it is posted again.

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

#include "proxier/access/transport.h"
#include "proxier/loop/line_limit.h"
#include "proxier/loop/timers.h"
#include "proxier/watch/cluster_event.h"

namespace ipvsproxier::watch {

class EventRecorder final : private access::ResponseHandler {
 public:
  using WallClock = std::function<EventRecord::Time()>;

  static constexpr std::size_t kMostKept = 1000;  // limit; further events are dropped
  static constexpr unsigned kAttempts = 12;

  // The arguments must outlive this; `random` returns numbers in [0, 1). `host` is this machine's
  // name. Its deadlines are named "events ...".
  EventRecorder(std::string host, access::Transport& transport, loop::Timers& timers,
                std::function<double()> random, spdlog::logger& log,
                WallClock wall = std::chrono::system_clock::now);
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;
  ~EventRecorder() override;

  void record(ClusterEvent event);

  // Whether nothing waits to be sent now or again later.
  bool idle() const { return busy_ == 0; }
  // `then` is called each time that idle() becomes true; it must not destroy this.
  void on_idle(std::function<void()> then) { on_idle_ = std::move(then); }

 private:
  using Key = std::tuple<EventLevel, std::string, std::string, ObjectReference>;
  struct Kept {
    EventRecord record;
    std::uint64_t number = 0;  // part of its deadline's name
    std::uint32_t told = 0;    // the count at the server; 0: the server has no such Event
    unsigned attempts = 0;     // failed attempts in a row
    bool busy = false;         // queued, being sent, or waiting for another attempt
    bool wanted = false;       // it has changes to send
    bool asked_again = false;  // after a 401
    bool ends = false;         // drop it once this has been sent
  };

  void on_head(const access::ResponseHead& head) override;
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
  access::Transport& transport_;
  loop::Timers& timers_;
  const std::function<double()> random_;
  spdlog::logger& log_;
  loop::LineLimit limit_{log_};
  const WallClock wall_;
  std::function<void()> on_idle_ = [] {};

  std::map<Key, Kept> kept_;
  std::size_t busy_ = 0;
  std::deque<Kept*> queue_;
  std::uint64_t numbers_ = 0;
  unsigned looks_ = 0;    // checks of the series
  bool is_full_ = false;  // the limit was reached, and logged

  struct CurrentRequest {
    Kept* kept = nullptr;  // whose Event is sent; nullptr: there is no request
    std::unique_ptr<access::Exchange> exchange;
    access::Method method = access::Method::post;
    std::uint32_t count = 0;  // that it reports
    access::ResponseHead head;
    std::string refusal;  // body of an unsuccessful answer
  } sending_;
};

}  // namespace ipvsproxier::watch
