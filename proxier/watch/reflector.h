#pragma once

// Reflector: follows one resource of the API server through all failures. Main thread only.
//
// It lists, then watches from the list's resource version, for ever. It reports differences: an
// object that is new or differs from its last report, and the name of a deleted object. A list
// takes effect when it is complete; a broken list or an absent server deletes nothing.
//
// Lists: one watch that starts with all objects (sendInitialEvents) if the server supports it,
// otherwise pages of 500 at the store's current state. Never an older state (resourceVersion=0), so
// a list never goes back behind events that were seen.
//
// current_request.h says how long a request may take, recovery.h which request follows a failure,
// and when.
//
// A server whose store was restored from a backup knows less than before. A watch from a version in
// its future stays silent there. So if a watch may have ended because of another store (the
// connection broke, it ended early, the server is behind), the reflector first asks for a list of
// one object, which carries the store's current version. A version below ours may also come from a
// lagging server among several. Therefore an older answer, also of a list, is believed only if a
// second one in a row, over another connection, is older as well; then everything is listed again.
// A restored store that has passed our version before the question is not recognized.
//
// A list that lacks more than half of many objects is repeated before these are deleted
// (removal_brake.h), over another connection, which may reach another server. Objects in the list,
// and events, take effect at once.
//
// An unreadable object affects only itself: its last good state stays, and the answer is read on.
// If even its name is unknown, everything is listed again after the watch has ended, because the
// event may have been a deletion.
//
// Logs, with the resource's name: lists, failures with the next step (watch_log.h), and problems of
// objects.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "proxier/access/transport.h"
#include "proxier/api/problem.h"
#include "proxier/api/wire.h"
#include "proxier/loop/timers.h"
#include "proxier/model/changes.h"
#include "proxier/watch/current_request.h"
#include "proxier/watch/ending.h"
#include "proxier/watch/event_framer.h"
#include "proxier/watch/known_objects.h"
#include "proxier/watch/problem_log.h"
#include "proxier/watch/recovery.h"
#include "proxier/watch/removal_brake.h"
#include "proxier/watch/resource_version.h"
#include "proxier/watch/unreadable_objects.h"
#include "proxier/watch/watch_log.h"

namespace ipvsproxier::watch {

struct ReflectorStatus {
  bool is_listed = false;      // the first list is complete
  std::uint64_t watches = 0;   // started, including streaming lists
  std::uint64_t lists = 0;     // completed
  std::uint64_t failures = 0;  // all endings except normal ones
  std::size_t objects = 0;
  // Of `objects`, those that the last list lacks: they stay until another list lacks them.
  std::size_t held = 0;
  std::size_t unreadable = 0;                             // objects that exist and cannot be read
  std::optional<loop::Timers::Clock::time_point> listed;  // start of the last complete list
  std::optional<loop::Timers::Clock::time_point> heard;   // time of the last data
  std::string last_error;                                 // "" without a current failure
};

// What is said of a reflector, in the log and by status().
class ReflectorReport {
 public:
  ReflectorReport(std::string resource, spdlog::logger& log, WatchLog& watch_log)
      : resource_(std::move(resource)),
        log_(log),
        watch_log_(watch_log),
        problem_log_(resource_, log) {}

  void note_problems(const api::Problems& problems, loop::Timers::Clock::time_point now) {
    problem_log_.tell(problems, now);
  }
  void note_ending(const EndedRequest& request, const Ending& ending,
                   std::chrono::milliseconds delay);
  void note_recovery();
  void note_list(loop::Timers::Clock::time_point begun, std::size_t objects, std::size_t changed,
                 std::size_t gone);
  void note_list_again();
  // `held` objects stay that the last list lacks, of `known`.
  void note_held(std::size_t held, std::size_t known);

  ReflectorStatus status;

 private:
  std::string resource_;
  spdlog::logger& log_;
  WatchLog& watch_log_;
  ProblemLog problem_log_;
};

class Reflector final : private CurrentRequest::Reader {
 public:
  using Clock = loop::Timers::Clock;
  // Objects that changed, and which cannot be read. Empty: a list is complete and changes nothing.
  // The callback must not destroy the reflector.
  using OnChanges = std::function<void(model::Changes)>;

  // The arguments must outlive this; `random` returns numbers in [0, 1). Its deadlines are named
  // after the resource.
  Reflector(Resource resource, access::Transport& transport, loop::Timers& timers,
            std::function<double()> random, RemovalBrake brake, spdlog::logger& log,
            WatchLog& watch_log, OnChanges on_changes);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  ~Reflector() override;

  void start();
  // Lists everything again, starting at `when` or as soon as possible after it.
  void list_again(Clock::time_point when);
  const Resource& resource() const { return resource_; }
  const ReflectorStatus& status() const { return report_.status; }

 private:
  const std::string& version() const override { return objects_.version(); }
  void on_accepted() override;
  void on_document(EventFramer::Piece piece, std::string_view text) override;
  void on_chunk_read() override;
  void on_complete() override;
  void on_ended(const EndedRequest& request, const Ending& ending) override;

  void begin();
  void begin_list();
  void take_event(netlink::Result<api::WatchEvent> event);
  void take_listed(api::WatchEvent& event);
  void take_change(api::WatchEvent& event);
  void take_bookmark(const api::WatchEvent& event);
  void take_item(api::ListItem item);
  void take_envelope(std::string_view document);
  void finish_list(std::string_view version);
  void finish_page();
  void judge_version(const std::string& version);
  void hand_over();
  void plan_list();
  void list_again();

  Resource resource_;
  loop::Timers& timers_;
  std::function<double()> random_;
  OnChanges on_changes_;
  ReflectorReport report_;

  KnownObjects objects_;
  RemovalBrake brake_;
  UnreadableObjects unreadable_;

  CurrentRequest request_;
  model::Changes changes_;  // of the current chunk
  struct Lists {
    std::optional<api::ListEnvelope> envelope;  // of the current page
    Clock::time_point begun;                    // the current one
    bool ended = false;                         // one ended in the current chunk
    std::optional<Clock::time_point> due;       // time of the next requested one
    bool in_doubt = false;                      // an unknown object changed since the last one
  } lists_;

  Recovery recovery_;
  OlderAnswers older_;
};

}  // namespace ipvsproxier::watch
