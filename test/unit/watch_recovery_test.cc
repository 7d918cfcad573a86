// Recovery, as a value: which request follows which end, and after what wait.

#include <chrono>

#include <catch2/catch.hpp>

#include "proxier/watch/recovery.h"

namespace ipvsproxier::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using watch::EndedRequest;
using watch::Ending;
using watch::Recovery;
using watch::Step;
using watch::Trouble;

Ending by(Trouble trouble) {
  return {trouble, "", {}};
}

// A watch that lasted its whole time and brought events.
EndedRequest good_watch() {
  return {.step = Step::watch,
          .status = 200,
          .got_on = true,
          .began_with_list = false,
          .lasted = seconds(300),
          .time_limit = seconds(300)};
}

EndedRequest failed(Step step, int status = 0) {
  return {.step = step,
          .status = status,
          .got_on = false,
          .began_with_list = false,
          .lasted = seconds(2),
          .time_limit = seconds(300)};
}

// A request that ended so, and the one that follows.
struct Row {
  Trouble trouble;
  int status;
  Step next;
};

struct Next {
  milliseconds wait;
  Step step;
  friend bool operator==(const Next&, const Next&) = default;
};

std::ostream& operator<<(std::ostream& out, const Next& next) {
  return out << next.wait.count() << " ms, step " << static_cast<int>(next.step);
}

Next after(Recovery& recovery, const EndedRequest& request, const Ending& ending,
           bool in_doubt = false) {
  const auto wait = recovery.wait_after(request, ending, 0);
  return {wait, recovery.next(request, ending, in_doubt)};
}

TEST_CASE("recovery: a watch that ended normally goes on at once") {
  Recovery recovery;
  CHECK(after(recovery, good_watch(), by(Trouble::ended)) == Next{milliseconds(0), Step::watch});
  // Long before its time: the server may have been replaced.
  CHECK(after(recovery, failed(Step::watch, 200), by(Trouble::ended)) ==
        Next{milliseconds(0), Step::question});
  // Again and again at once would be a busy loop.
  auto request = failed(Step::watch, 200);
  request.lasted = milliseconds(5);
  CHECK(after(recovery, request, by(Trouble::ended)) == Next{milliseconds(800), Step::question});
  request.began_with_list = true;
  CHECK(after(recovery, request, by(Trouble::ended)).wait == milliseconds(0));
}

TEST_CASE("recovery: waits double, and begin anew after a watch that got on") {
  Recovery recovery;
  const auto lost = by(Trouble::lost);
  for (const auto wait : {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000})
    CHECK(after(recovery, failed(Step::watch), lost) == Next{milliseconds(wait), Step::question});
  CHECK(after(recovery, good_watch(), lost).wait == milliseconds(800));
}

TEST_CASE("recovery: the server's Retry-After counts, and a little more") {
  Recovery recovery;
  const Ending busy{Trouble::busy, "", seconds(4)};
  CHECK(recovery.wait_after(failed(Step::watch, 429), busy, 0) == seconds(4));
  CHECK(recovery.wait_after(failed(Step::watch, 429), busy, 0.8) == milliseconds(4800));
}

TEST_CASE("recovery: 401 and an expired version are tried at once, the first time") {
  Recovery recovery;
  const auto refused = failed(Step::watch, 401);
  CHECK(after(recovery, refused, by(Trouble::unauthorized)).wait == milliseconds(0));
  CHECK(after(recovery, refused, by(Trouble::unauthorized)).wait > milliseconds(0));
  recovery.note_accepted();
  CHECK(after(recovery, refused, by(Trouble::unauthorized)).wait == milliseconds(0));

  const auto gone = failed(Step::watch, 410);
  CHECK(after(recovery, gone, by(Trouble::expired)) == Next{milliseconds(0), Step::streaming_list});
  CHECK(after(recovery, gone, by(Trouble::expired)).wait > milliseconds(0));
  after(recovery, good_watch(), by(Trouble::ended));
  CHECK(after(recovery, gone, by(Trouble::expired)).wait == milliseconds(0));
  CHECK(recovery.last_trouble() == Trouble::expired);
}

TEST_CASE("recovery: the second dead end in a row leads to a new list") {
  const auto trouble = GENERATE(Trouble::nonsense, Trouble::behind);
  Recovery recovery;
  CHECK(after(recovery, failed(Step::watch, 200), by(trouble)).step != Step::streaming_list);
  CHECK(after(recovery, failed(Step::watch, 200), by(trouble)).step == Step::streaming_list);
  // A streaming list that is one is replaced by pages.
  CHECK(after(recovery, failed(Step::streaming_list, 200), by(trouble)).step == Step::first_page);
}

TEST_CASE(
    "recovery: a server without streaming lists is asked for pages until a list is complete") {
  const auto [trouble, status, next] = GENERATE(
      Row{Trouble::unsupported, 400, Step::first_page}, Row{Trouble::ended, 200, Step::first_page},
      Row{Trouble::overdue, 200, Step::first_page}, Row{Trouble::overdue, 0, Step::streaming_list},
      Row{Trouble::lost, 200, Step::streaming_list},
      Row{Trouble::denied, 403, Step::streaming_list});
  Recovery recovery;
  CHECK(after(recovery, failed(Step::streaming_list, status), by(trouble)).step == next);
  CHECK(recovery.list_step() == next);
  recovery.note_listed();
  CHECK(recovery.list_step() == Step::streaming_list);
}

TEST_CASE("recovery: a later page is repeated, unless its token or its answer is bad") {
  Recovery recovery;
  const auto page = failed(Step::later_page);
  for (const auto trouble : {Trouble::lost, Trouble::overdue, Trouble::busy, Trouble::denied})
    CHECK(after(recovery, page, by(trouble)).step == Step::later_page);
  for (const auto trouble : {Trouble::expired, Trouble::older, Trouble::nonsense})
    CHECK(after(recovery, page, by(trouble)).step == Step::streaming_list);
  CHECK(after(recovery, failed(Step::first_page), by(Trouble::lost)).step == Step::streaming_list);
}

TEST_CASE("recovery: an unnamed change leads to a list, whatever the end of the watch") {
  for (const auto trouble : {Trouble::ended, Trouble::lost, Trouble::denied, Trouble::busy}) {
    Recovery recovery;
    CHECK(after(recovery, good_watch(), by(trouble), true).step == Step::streaming_list);
  }
}

TEST_CASE("recovery: after the question, a watch, or the question again") {
  const auto [trouble, status, next] = GENERATE(
      // Nobody answered.
      Row{Trouble::lost, 0, Step::question}, Row{Trouble::overdue, 0, Step::question},
      Row{Trouble::older, 200, Step::question}, Row{Trouble::busy, 429, Step::question},
      Row{Trouble::unauthorized, 401, Step::question},
      // Half an answer, or none to those who may only watch.
      Row{Trouble::lost, 200, Step::watch}, Row{Trouble::denied, 403, Step::watch},
      Row{Trouble::expired, 410, Step::streaming_list});
  Recovery recovery;
  CHECK(after(recovery, failed(Step::question, status), by(trouble)).step == next);
}

}  // namespace
}  // namespace ipvsproxier::test
