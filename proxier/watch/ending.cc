#include "proxier/watch/ending.h"

#include <algorithm>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::watch {

namespace {

// The text by which client-go recognizes this timeout (isTooLargeResourceVersionError).
constexpr std::string_view kTooLarge = "Too large resource version";
// Limit in bytes: the cause is stored and shown.
constexpr std::size_t kMostCause = 4096;

Trouble trouble_of(int code, const api::ApiStatus& status) {
  if (code == 410 || status.reason == "Expired" || status.reason == "Gone") return Trouble::expired;
  if (status.message.find(kTooLarge) != std::string::npos) return Trouble::behind;
  switch (code) {
    case 401:
      return Trouble::unauthorized;
    case 403:
    case 404:
      return Trouble::denied;
    case 429:
    case 503:
    case 504:
      return Trouble::busy;
    default:
      return Trouble::nonsense;
  }
}

Ending ending_of(std::string what, int code, const api::ApiStatus& status) {
  Ending ending{.trouble = trouble_of(code, status),
                .cause = std::move(what) + " " + std::to_string(code)};
  if (!status.reason.empty()) ending.cause += " " + status.reason;
  if (!status.message.empty()) ending.cause += ": " + status.message;
  // One line, for logs and the daemon's status.
  ending.cause.resize(api::head_of(ending.cause, kMostCause).size());
  std::replace_if(
      ending.cause.begin(), ending.cause.end(),
      [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (status.retry_after_seconds && *status.retry_after_seconds > 0)
    ending.retry_after =
        std::min(std::chrono::seconds(*status.retry_after_seconds), kLongestRetryAfter);
  return ending;
}

}  // namespace

Ending ending_of_event(const api::ApiStatus& status) {
  return ending_of("the watch ended with", status.code, status);
}

Ending ending_of_answer(int code, const api::ApiStatus& status, Step step, api::ObjectKind kind) {
  const bool is_refused = code == 400 || code == 422;
  const bool is_unsupported =
      step == Step::streaming_list &&
      (is_refused || status.message.find("sendInitialEvents") != std::string::npos);
  std::string what = "the server answered";
  if (code == 404)
    what = "the server has no " + std::string(api::to_string(kind)) + " of " +
           std::string(api::api_version_of(kind)) + ": it answered";
  else if (is_unsupported)
    what = "the server has no streaming lists, pages take their place: it answered";
  auto ending = ending_of(std::move(what), code, status);
  if (code >= 300 && code < 400)
    ending.cause += "; redirects are not followed: credentials are for the server that is named";
  if (is_unsupported) ending.trouble = Trouble::unsupported;
  if (step == Step::later_page && code == 400) ending.trouble = Trouble::expired;
  return ending;
}

}  // namespace ipvsproxier::watch
