#include "proxier/watch/recovery.h"

#include <utility>

namespace ipvsproxier::watch {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A watch that ends this much before its time limit ended for another reason.
constexpr seconds kBeforeTime{10};
// A watch that ends this soon without events must not be repeated at once.
constexpr seconds kTooShort{1};
constexpr unsigned kMostDeadEnds = 2;

bool is_dead_end(const Ending& ending) {
  return ending.trouble == Trouble::nonsense || ending.trouble == Trouble::behind;
}

}  // namespace

milliseconds Recovery::wait_after(const EndedRequest& request, const Ending& ending,
                                  double random) {
  if (request.got_on) {
    attempts_ = 0;
    dead_ends_ = 0;
    expired_before_ = false;
  }
  if (is_dead_end(ending)) ++dead_ends_;
  last_trouble_ = ending.trouble;
  if (goes_on_at_once(request, ending)) return milliseconds(0);
  if (ending.retry_after)
    return milliseconds(static_cast<milliseconds::rep>(
        static_cast<double>(milliseconds(*ending.retry_after).count()) * (1 + 0.25 * random)));
  return kBackoff.delay(++attempts_, random);
}

bool Recovery::goes_on_at_once(const EndedRequest& request, const Ending& ending) {
  switch (ending.trouble) {
    case Trouble::ended:
      return request.step != Step::watch || request.began_with_list || request.got_on ||
             request.lasted >= kTooShort;
    case Trouble::overdue:
      return request.got_on;
    case Trouble::unauthorized:
      return !std::exchange(asked_again_, true);
    case Trouble::expired:
      return !std::exchange(expired_before_, true);
    case Trouble::unsupported:
      return true;
    case Trouble::lost:
    case Trouble::busy:
    case Trouble::behind:
    case Trouble::older:
    case Trouble::denied:
    case Trouble::nonsense:
      break;
  }
  return false;
}

Step Recovery::next(const EndedRequest& request, const Ending& ending, bool in_doubt) {
  const bool gives_up = is_dead_end(ending) && dead_ends_ >= kMostDeadEnds;
  if (request.step == Step::watch || request.step == Step::question) {
    if (ending.trouble == Trouble::expired || gives_up || in_doubt) return list_step();
    return leaves_doubt(request, ending) ? Step::question : Step::watch;
  }
  // A server without streaming lists may also answer with a watch that never marks the end of its
  // initial events.
  if (request.step == Step::streaming_list)
    pages_only_ = ending.trouble == Trouble::unsupported || ending.trouble == Trouble::ended ||
                  (ending.trouble == Trouble::overdue && request.status == 200) || gives_up;
  // Later pages show the state of the first one, so the earlier pages stay valid.
  if (request.step == Step::later_page && ending.trouble != Trouble::expired &&
      ending.trouble != Trouble::older && ending.trouble != Trouble::nonsense)
    return Step::later_page;
  return list_step();
}

// Whether the next server may have another store than the one that the objects came from.
bool Recovery::leaves_doubt(const EndedRequest& request, const Ending& ending) {
  switch (ending.trouble) {
    case Trouble::ended:
      return request.step == Step::watch && request.lasted < request.time_limit - kBeforeTime;
    // A server that begins to answer the question, but does not finish, may still serve a watch.
    case Trouble::lost:
    case Trouble::overdue:
      return request.step == Step::watch || request.status == 0;
    case Trouble::behind:
    case Trouble::older:
      return true;
    case Trouble::busy:
    case Trouble::unauthorized:
      return request.step == Step::question;
    // A client that may watch need not be allowed to list.
    case Trouble::denied:
    case Trouble::expired:
    case Trouble::unsupported:
    case Trouble::nonsense:
      break;
  }
  return false;
}

}  // namespace ipvsproxier::watch
