#pragma once

// Reflector: follows one resource of the API server, whatever the server does. The main thread's.
//
// It lists, then watches from the list's resource version, and goes on for ever. What it answers
// are differences: an object is handed over when it is new or not equal to what was handed over
// before, a name when it is gone. A list counts when it is complete; nothing is gone because a list
// broke off or the server is away.
//
// Lists: one watch that starts with all objects (sendInitialEvents), where the server has that;
// else pages of 500, in the state of the store as it is then. Never from an older state
// (resourceVersion=0), so a list does not go back behind events that were seen.
//
// When something goes wrong:
//   the watch ends normally          the next from the last version, at once
//   410, in the head or as an event  a new list; the first time at once
//   400 or 410 to a later page       a new list; the first time at once
//   400, 422 to the streaming list,
//   or no end of it in two minutes   pages
//   401                              credentials are read again; the first time at once
//   429, 503, 504                    after Retry-After, else as everything else:
//   everything else                  after 0.8 s, doubling to 30 s, up to a quarter less; the same
//                                    again; the second time in a row that a server was there and
//                                    answered nonsense (broken JSON, an ERROR event, a status for
//                                    which there is no rule) or 504 "Too large resource version",
//                                    a new list; a streaming list becomes pages
// A list that is silent for a minute, a page that takes two, a watch that does not end 30 s after
// it should have, and one that had a bookmark (they come once a minute) and says nothing for three,
// are ended and repeated on another connection. That time counts from when the request goes out:
// credentials may take theirs (cluster_access.h).
//
// A server whose store was restored from a backup knows less than it did. A watch from a version
// that is yet to come says nothing there, not even that. So when a watch may have ended because
// there is another store (the connection was lost, it ended before its time, the server is behind),
// the server is asked first for a list of one object, which comes with the store's version as it is
// now. If that is less than ours, that server may also be one of several that lags behind, so what
// is older than what we know, a list too, is believed when a second answer in a row, over another
// connection, is older: then everything is listed anew. A store that was restored and has passed
// our version before we could ask is not recognised.
//
// A list that lacks more than half of many objects is asked for again before they go
// (removal_brake.h), over another connection, which may lead to another server; what it holds, and
// what events tell, counts at once.
//
// An object that cannot be read costs itself alone: its last good state stays in force, and the
// answer goes on. If not even its name can be told, everything is listed anew when the watch has
// ended: it may have been a deletion.
//
// Logs (a resource's name in front): lists, failures with what happens next (watch_log.h), and
// what is wrong with objects.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <spdlog/logger.h>

#include "proxier/api/problem.h"
#include "proxier/api/wire.h"
#include "proxier/loop/backoff.h"
#include "proxier/loop/timers.h"
#include "proxier/watch/ending.h"
#include "proxier/watch/event_framer.h"
#include "proxier/watch/known_objects.h"
#include "proxier/watch/list_request.h"
#include "proxier/watch/older_answers.h"
#include "proxier/watch/problem_log.h"
#include "proxier/watch/removal_brake.h"
#include "proxier/watch/transport.h"
#include "proxier/watch/unreadable_objects.h"
#include "proxier/watch/watch_log.h"

namespace ipvsproxier::watch {

struct ReflectorStatus {
  bool is_listed = false;      // the first list was complete
  std::uint64_t watches = 0;   // begun; streaming lists count
  std::uint64_t lists = 0;     // complete
  std::uint64_t failures = 0;  // every end but a normal one
  std::size_t objects = 0;
  std::size_t held = 0;  // of these, missing from the last list: they stay until another lacks them
  std::size_t unreadable = 0;                             // objects that exist and cannot be read
  std::optional<loop::Timers::Clock::time_point> listed;  // when the last whole list was begun
  std::optional<loop::Timers::Clock::time_point> heard;   // last byte of objects or bookmarks
  std::string last_error;                                 // "" while all is well
};

// What has changed. Nothing at all: a list is complete, and says nothing new.
struct ReflectorNews {
  ObjectChanges objects;
  UnreadableChanges unreadable;

  bool empty() const { return objects.empty() && unreadable.empty(); }
};

class Reflector final : private ResponseHandler {
 public:
  using Clock = loop::Timers::Clock;
  // Must not destroy the reflector.
  using OnChanges = std::function<void(ReflectorNews)>;

  static constexpr loop::Backoff kBackoff{std::chrono::milliseconds(800),
                                          std::chrono::milliseconds(30'000)};

  // What it uses outlives it; `random` answers numbers in [0, 1). Its deadlines are named after the
  // resource.
  Reflector(Resource resource, Transport& transport, loop::Timers& timers,
            std::function<double()> random, RemovalBrake brake, spdlog::logger& log,
            WatchLog& watch_log, OnChanges on_changes);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  ~Reflector() override;

  void start();
  // Everything is listed anew, begun at `when` or as soon after it as can be.
  void list_again(Clock::time_point when);
  const Resource& resource() const { return resource_; }
  const ReflectorStatus& status() const { return status_; }

 private:
  void on_head(const ResponseHead& head) override;
  void on_chunk(std::string_view chunk) override;
  void on_end(const netlink::Status& outcome) override;

  void begin();
  void begin_list();
  void take_piece(EventFramer::Piece piece, std::string_view text);
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
  void note_held();
  void plan_list();
  void list_again();

  void end(Ending ending);
  bool goes_on_at_once(const Ending& ending);
  void choose_next(const Ending& ending);
  bool leaves_doubt(const Ending& ending) const;
  std::chrono::milliseconds delay_of(const Ending& ending, bool at_once);
  void note_ending(const Ending& ending, std::chrono::milliseconds delay);
  void note_recovery();
  bool got_on() const;

  Clock::time_point asked() const;
  void check_silence();
  void check_end();

  Resource resource_;
  Transport& transport_;
  loop::Timers& timers_;
  std::function<double()> random_;
  spdlog::logger& log_;
  WatchLog& watch_log_;
  OnChanges on_changes_;

  KnownObjects objects_;
  RemovalBrake brake_;
  UnreadableObjects unreadable_;
  ProblemLog problem_log_;
  ReflectorStatus status_;

  // The exchange that goes on, or the one that waits to begin.
  Step step_ = Step::streaming_list;
  std::unique_ptr<Exchange> exchange_;
  std::optional<EventFramer> framer_;
  ResponseHead head_;
  std::string refusal_;                        // the body that came with another status than 200
  std::optional<api::ListEnvelope> envelope_;  // of the page
  std::optional<Ending> broken_;               // why the rest of the body does not count
  ReflectorNews changes_;                      // of the chunk
  bool list_ended_ = false;                    // in the chunk
  bool began_with_list_ = false;               // a streaming list that is complete
  bool has_bookmarks_ = false;                 // the watch
  std::string version_before_;                 // of the objects, before the watch
  std::chrono::seconds time_limit_{0};
  Clock::time_point begun_;  // from the head on: when the request went out
  Clock::time_point heard_;

  // The list that goes on.
  Clock::time_point list_begun_;
  std::optional<Clock::time_point> list_due_;  // when another one was asked for
  std::string continue_token_;
  bool pages_only_ = false;
  bool in_doubt_ = false;  // something changed since the last one, nobody can tell what

  // What went wrong before.
  unsigned attempts_ = 0;   // in a row
  unsigned dead_ends_ = 0;  // nonsense or behind, in a row
  OlderAnswers older_;
  bool asked_again_ = false;  // after a 401
  bool expired_before_ = false;
  Trouble trouble_ = Trouble::ended;
};

}  // namespace ipvsproxier::watch
