#include "test/support/api_server/listing.h"

#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::test {
namespace {

using netlink::Result;

std::string query_of(const LoggedRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

std::optional<std::uint64_t> number(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_true(const std::string& text) {
  return text == "true" || text == "1";
}

Listed failed(const StatusParts& parts) {
  return {.body = {}, .code = parts.code, .failure = status_document(parts)};
}

StatusParts expired(std::uint64_t wanted, std::uint64_t current) {
  return {.code = 410,
          .reason = "Expired",
          .message = fmt::format("too old resource version: {} ({})", wanted, current)};
}

// kube-apiserver prints one cause for each of the fields.
StatusParts invalid_options(int code, const std::string& field, const std::string& why) {
  return {
      .code = code,
      .reason = code == 422 ? "Invalid" : reason_of_code(code),
      .message =
          fmt::format("ListOptions.meta.k8s.io \"\" is invalid: {}: Forbidden: {}", field, why),
      .details = fmt::format(R"({{"group":"meta.k8s.io","kind":"ListOptions","causes":[)"
                             R"({{"reason":"FieldValueForbidden","message":{},"field":"{}"}}]}})",
                             json_text("Forbidden: " + why), field)};
}

}  // namespace

// A list "not older than", with a version and nothing more said, is that too.
bool Listing::waits_for_version() const {
  if (version == 0 || !continue_token.empty()) return false;
  return watch ? initial_events : true;
}

Result<Listing> listing_of(const LoggedRequest& request, const Target& target) {
  Listing out{.resource = *target.resource, .name_space = target.name_space};
  auto labels = Selector::labels(query_of(request, "labelSelector"));
  if (!labels) return labels.error();
  auto fields = Selector::fields(query_of(request, "fieldSelector"));
  if (!fields) return fields.error();
  out.labels = *std::move(labels);
  out.fields = *std::move(fields);
  out.counted = out.labels.empty() && out.fields.empty();
  out.watch = asks_for_watch(request);
  out.bookmarks = is_true(query_of(request, "allowWatchBookmarks"));
  out.initial_events_given = request.query.contains("sendInitialEvents");
  out.initial_events = is_true(query_of(request, "sendInitialEvents"));
  out.version_text = query_of(request, "resourceVersion");
  if (!out.version_text.empty()) {
    const auto value = number(out.version_text);
    out.version_wrong = !value;
    out.version = value.value_or(0);
  }
  out.match = query_of(request, "resourceVersionMatch");
  out.continue_token = query_of(request, "continue");
  out.limit = static_cast<std::size_t>(number(query_of(request, "limit")).value_or(0));
  if (const auto seconds = number(query_of(request, "timeoutSeconds")); seconds && *seconds > 0)
    out.timeout = std::chrono::seconds(*seconds);
  return out;
}

std::optional<StatusParts> refuse_version(const Listing& listing, const ServerOptions& options) {
  if (listing.initial_events_given) {
    const int code = options.streaming_lists ? 422 : options.streaming_refusal;
    if (!listing.watch)
      return invalid_options(422, "sendInitialEvents", "sendInitialEvents is forbidden for list");
    if (!options.streaming_lists)
      return invalid_options(
          code, "sendInitialEvents",
          "sendInitialEvents is forbidden for watch unless the WatchList feature "
          "gate is enabled");
    if (listing.match != "NotOlderThan")
      return invalid_options(
          code, "resourceVersionMatch",
          "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    if (!listing.bookmarks && listing.initial_events)
      return invalid_options(code, "allowWatchBookmarks",
                             "sendInitialEvents requires setting allowWatchBookmarks to true");
  } else if (listing.watch && !listing.match.empty()) {
    return invalid_options(422, "resourceVersionMatch",
                           "resourceVersionMatch is forbidden for watch");
  }
  if (listing.version_wrong)
    return StatusParts{
        .code = 500,
        .reason = {},
        .message = fmt::format("resourceVersion: Invalid value: \"{0}\": strconv.ParseUint: "
                               "parsing \"{0}\": invalid syntax",
                               listing.version_text)};
  if (!listing.watch && !listing.match.empty() && listing.version_text.empty())
    return invalid_options(422, "resourceVersionMatch",
                           "resourceVersionMatch is forbidden unless resourceVersion is provided");
  return std::nullopt;
}

StatusParts too_large_version(std::uint64_t wanted, std::uint64_t current) {
  return {.code = 504,
          .reason = "Timeout",
          .message =
              fmt::format("Timeout: Too large resource version: {}, current: {}", wanted, current),
          .details = R"({"causes":[{"reason":"ResourceVersionTooLarge",)"
                     R"("message":"Too large resource version"}],"retryAfterSeconds":1})"};
}

std::unique_ptr<RunningWatch> start_watch(const Listing& listing, const Store& store,
                                          const ServerOptions& options) {
  const auto now = RunningWatch::Clock::now();
  // Without a version, or with 0, a watch starts with what there is; with bookmarks a server of
  // today says where that ends, asked or not.
  const bool from_anything = listing.version == 0 && !listing.initial_events_given;
  RunningWatch::Wanted wanted{
      .resource = listing.resource,
      .labels = listing.labels,
      .fields = listing.fields,
      .from = listing.version,
      .initial_events = listing.initial_events || from_anything,
      .initial_end =
          listing.initial_events || (from_anything && listing.bookmarks && options.streaming_lists),
      .bookmarks = listing.bookmarks,
      .deadline = {},
      .bookmark_every = std::chrono::seconds(options.bookmark_seconds)};
  if (listing.timeout) wanted.deadline = now + *listing.timeout;
  if (listing.initial_events_given && !listing.initial_events && listing.version == 0)
    wanted.from = store.version();
  const bool too_old = !wanted.initial_events && wanted.from < store.compacted();
  auto watch = std::make_unique<RunningWatch>(std::move(wanted), store);
  if (too_old) watch->expire(store);
  return watch;
}

Listed list(const Listing& listing, const Store& store) {
  auto version = store.version();
  Store::Key start;
  if (!listing.continue_token.empty()) {
    const auto at = decode_continue(listing.continue_token);
    if (!at)
      return failed({.code = 400,
                     .reason = "BadRequest",
                     .message = "invalid continue token: " + at.error().where});
    start = at->start;
    if (at->version != 0 && at->version < store.compacted()) {
      auto gone = expired(at->version, store.version());
      gone.message = "The provided continue parameter is too old: " + gone.message;
      gone.continue_token = encode_continue({.version = 0, .start = start});
      return failed(gone);
    }
    if (at->version != 0) version = at->version;
  } else if (listing.exact()) {
    if (listing.version < store.compacted())
      return failed(expired(listing.version, store.version()));
    version = listing.version;
  }
  // A list from the watch cache (version 0) is never paged.
  const bool whole = listing.limit == 0 || (listing.version_text == "0" && !listing.exact());

  std::string items;
  Store::Key last;
  std::size_t listed = 0;
  std::size_t remaining = 0;
  store.visit_at(version, listing.resource, start,
                 [&](const Store::Key& key, const StoredObject& object) {
                   if (!listing.labels.matches(object.attributes) ||
                       !listing.fields.matches(object.attributes))
                     return true;
                   if (!listing.name_space.empty() && object.name_space != listing.name_space)
                     return true;
                   if (!whole && listed == listing.limit) {
                     ++remaining;
                     return listing.counted;  // otherwise it is enough to know that there are more
                   }
                   if (listed++ > 0) items += ",";
                   items += object.text;
                   last = key;
                   return true;
                 });
  std::string next;
  if (remaining > 0) next = encode_continue({.version = version, .start = last + '\0'});
  const auto left = remaining > 0 && listing.counted ? std::optional(remaining) : std::nullopt;
  return {.body = list_head(facts_of(listing.resource), version, next, left) + items + "]}\n",
          .code = 200,
          .failure = {}};
}

}  // namespace ipvsproxier::test
