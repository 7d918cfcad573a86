#pragma once

// Recovery: the request that follows the end of another, and the wait before it. It remembers
// earlier failures of one resource. Pure: the caller gives the facts and the random number.
//
//   list (streaming_list, or first_page and later_page) -> watch
//   watch -> watch; question, if the next server may have another store; list
//   question -> watch; question; list
//
// Failures:
//   watch ends normally              next watch from the last version, at once
//   410, as status or event          new list; the first time at once
//   400 or 410 to a later page       new list; the first time at once
//   400 or 422 to a streaming list,
//   or no end of it in two minutes   pages
//   401                              read credentials again; the first time at once
//   429, 503, 504                    after Retry-After; without it, as any other failure
//   any other failure                repeat after 0.8 s, doubling to 30 s, less up to a quarter
// The second dead end in a row (broken JSON, an ERROR event, a status without a rule, or 504 "Too
// large resource version") leads to a new list; a streaming list is replaced by pages.

#include <chrono>

#include "proxier/loop/backoff.h"
#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {

// A request that ended.
struct EndedRequest {
  Step step = Step::watch;
  int status = 0;  // of the answer; 0: none
  // A watch that brought events, or proved by its length that it works.
  bool got_on = false;
  bool began_with_list = false;  // a watch that began with a streaming list that is complete
  std::chrono::steady_clock::duration lasted{};
  std::chrono::seconds time_limit{};  // that the request asked for
};

class Recovery {
 public:
  static constexpr loop::Backoff kBackoff{std::chrono::milliseconds(800),
                                          std::chrono::milliseconds(30'000)};

  // The first request of a new list.
  Step list_step() const { return pages_only_ ? Step::first_page : Step::streaming_list; }

  // The server accepted a request.
  void note_accepted() { asked_again_ = false; }
  // A list is complete.
  void note_listed() { pages_only_ = false; }

  // The wait before the next request; `random` in [0, 1). Called once for each ending, before
  // next().
  std::chrono::milliseconds wait_after(const EndedRequest& request, const Ending& ending,
                                       double random);
  // The next request. list_step(): everything is listed anew; later_page: the current page is
  // repeated. `in_doubt`: an object changed that the watch could not name.
  Step next(const EndedRequest& request, const Ending& ending, bool in_doubt);

  // How the last request ended.
  Trouble last_trouble() const { return last_trouble_; }

 private:
  bool goes_on_at_once(const EndedRequest& request, const Ending& ending);
  static bool leaves_doubt(const EndedRequest& request, const Ending& ending);

  unsigned attempts_ = 0;        // consecutive failures
  unsigned dead_ends_ = 0;       // consecutive nonsensical or behind answers
  bool asked_again_ = false;     // after a 401
  bool expired_before_ = false;  // since the last watch that got on
  bool pages_only_ = false;      // until the next complete list
  Trouble last_trouble_ = Trouble::ended;
};

}  // namespace ipvsproxier::watch
