#include <catch2/catch.hpp>

#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {
namespace {

using std::chrono::seconds;

Ending ending_of_services(int code, const api::ApiStatus& status, Step step) {
  return ending_of_answer(code, status, step, api::ObjectKind::service);
}

TEST_CASE("what an answer means") {
  const auto trouble = [](int code, Step step) {
    return ending_of_services(code, {}, step).trouble;
  };
  for (const auto step : {Step::streaming_list, Step::first_page, Step::later_page, Step::watch}) {
    CHECK(trouble(401, step) == Trouble::unauthorized);
    CHECK(trouble(403, step) == Trouble::denied);
    CHECK(trouble(404, step) == Trouble::denied);
    CHECK(trouble(410, step) == Trouble::expired);
    CHECK(trouble(429, step) == Trouble::busy);
    CHECK(trouble(503, step) == Trouble::busy);
    CHECK(trouble(504, step) == Trouble::busy);
    CHECK(trouble(500, step) == Trouble::nonsense);
    CHECK(trouble(302, step) == Trouble::nonsense);
    CHECK(trouble(204, step) == Trouble::nonsense);
  }
  for (const int code : {400, 422}) {
    CHECK(trouble(code, Step::streaming_list) == Trouble::unsupported);
    CHECK(trouble(code, Step::first_page) == Trouble::nonsense);
    CHECK(trouble(code, Step::watch) == Trouble::nonsense);
  }
  CHECK(trouble(400, Step::later_page) == Trouble::expired);
}

TEST_CASE("a server that has not come to our version is told from one that is busy") {
  const api::ApiStatus status{.code = 504,
                              .reason = "Timeout",
                              .message = "Too large resource version: 10, current: 9",
                              .retry_after_seconds = 1};
  for (const auto step : {Step::streaming_list, Step::first_page, Step::question, Step::watch})
    CHECK(ending_of_services(504, status, step).trouble == Trouble::behind);
  CHECK(ending_of_event(status).trouble == Trouble::behind);
  CHECK(ending_of_event(status).retry_after == seconds(1));
  CHECK(ending_of_event({.code = 504, .reason = "Timeout"}).trouble == Trouble::busy);
}

TEST_CASE("a server may say otherwise that it has no streaming lists") {
  const api::ApiStatus status{.reason = "Forbidden",
                              .message = "sendInitialEvents is forbidden for watch"};
  CHECK(ending_of_services(403, status, Step::streaming_list).trouble == Trouble::unsupported);
  CHECK(ending_of_services(403, status, Step::watch).trouble == Trouble::denied);
}

TEST_CASE("what a server does not have is named with its version") {
  const api::ApiStatus status{.reason = "NotFound", .message = "not here"};
  CHECK(
      ending_of_answer(404, status, Step::watch, api::ObjectKind::endpoint_slice).cause ==
      "the server has no EndpointSlice of discovery.k8s.io/v1: it answered 404 NotFound: not here");
  CHECK(ending_of_answer(404, {}, Step::first_page, api::ObjectKind::service).cause ==
        "the server has no Service of v1: it answered 404");
  CHECK(ending_of_services(422, {.reason = "Invalid"}, Step::streaming_list).cause ==
        "the server has no streaming lists, pages take their place: it answered 422 Invalid");
}

TEST_CASE("the reason counts where the code does not say it") {
  CHECK(ending_of_event({.code = 410}).trouble == Trouble::expired);
  CHECK(ending_of_event({.reason = "Expired"}).trouble == Trouble::expired);
  CHECK(ending_of_event({.reason = "Gone"}).trouble == Trouble::expired);
  CHECK(ending_of_event({.code = 500, .reason = "InternalError"}).trouble == Trouble::nonsense);
}

TEST_CASE("the cause is one line and says what the server said") {
  const api::ApiStatus status{
      .code = 429, .reason = "TooManyRequests", .message = "slow\ndown", .retry_after_seconds = 7};
  const auto answer = ending_of_services(429, status, Step::watch);
  CHECK(answer.cause == "the server answered 429 TooManyRequests: slow down");
  CHECK(answer.retry_after == seconds(7));
  CHECK(ending_of_event(status).cause == "the watch ended with 429 TooManyRequests: slow down");
  CHECK(ending_of_services(502, {}, Step::watch).cause == "the server answered 502");
}

TEST_CASE("the cause is not as long as the server likes") {
  const api::ApiStatus status{.code = 500, .message = std::string(1 << 20, 'x')};
  CHECK(ending_of_event(status).cause.size() == 4096);
  CHECK(ending_of_services(500, status, Step::watch).cause.size() == 4096);
}

TEST_CASE("a server cannot send us away for a day") {
  const auto answer = ending_of_services(503, {.retry_after_seconds = 86'400}, Step::watch);
  CHECK(answer.retry_after == seconds(600));
  CHECK_FALSE(ending_of_services(503, {.retry_after_seconds = -1}, Step::watch).retry_after);
}

}  // namespace
}  // namespace ipvsproxier::watch
