#include "proxier/watch/reflector.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/decode.h"

namespace ipvsproxier::watch {

namespace {

using std::chrono::milliseconds;

std::string too_large() {
  return fmt::format("is larger than {} bytes", EventFramer::kMaxDocument);
}

}  // namespace

Reflector::Reflector(Resource resource, access::Transport& transport, loop::Timers& timers,
                     std::function<double()> random, RemovalBrake brake, spdlog::logger& log,
                     WatchLog& watch_log, OnChanges on_changes)
    : resource_(std::move(resource)),
      timers_(timers),
      random_(std::move(random)),
      on_changes_(std::move(on_changes)),
      report_(resource_.name, log, watch_log),
      objects_(resource_.kind),
      brake_(std::move(brake)),
      unreadable_(resource_.kind),
      request_(resource_, transport, timers_, random_, *this) {}

Reflector::~Reflector() {
  timers_.cancel(resource_.name + " begins");
  timers_.cancel(resource_.name + " is listed again");
}

void Reflector::start() {
  begin_list();
  begin();
}

// --- requests ------------------------------------------------------------------------------------

void Reflector::begin_list() {
  objects_.begin_list();
  unreadable_.begin_list();
  request_.prepare(recovery_.list_step());
}

void Reflector::begin() {
  lists_.envelope.reset();
  request_.begin();
  const auto step = request_.step();
  if (step == Step::streaming_list || step == Step::watch) ++report_.status.watches;
  if (step == Step::streaming_list || step == Step::first_page) lists_.begun = request_.begun();
}

// --- answers -------------------------------------------------------------------------------------

void Reflector::on_accepted() {
  report_.status.heard = request_.heard();
  recovery_.note_accepted();
  // A list counts as a recovery only when it is complete.
  if (request_.step() == Step::watch && recovery_.last_trouble() != Trouble::nonsense &&
      recovery_.last_trouble() != Trouble::expired)
    report_.note_recovery();
}

void Reflector::on_chunk_read() {
  report_.status.heard = request_.heard();
  hand_over();
}

void Reflector::on_complete() {
  if (lists_.envelope)
    finish_page();
  else if (request_.step() == Step::watch)
    request_.end({Trouble::ended, "the watch ended", {}});
  else
    request_.end({Trouble::ended, "the list ended before it was complete", {}});
}

void Reflector::on_document(EventFramer::Piece piece, std::string_view text) {
  switch (piece) {
    case EventFramer::Piece::event:
      return take_event(api::decode_watch_event(text, resource_.kind));
    case EventFramer::Piece::event_beginning:
      return take_event(api::outline_watch_event(text, resource_.kind, too_large()));
    case EventFramer::Piece::item:
      if (request_.step() != Step::question) take_item(api::decode_list_item(text, resource_.kind));
      return;
    case EventFramer::Piece::item_beginning:
      if (request_.step() != Step::question)
        take_item(api::outline_list_item(text, resource_.kind, too_large()));
      return;
    case EventFramer::Piece::envelope:
      return take_envelope(text);
  }
}

void Reflector::take_event(netlink::Result<api::WatchEvent> event) {
  if (!event) {
    request_.break_off({Trouble::nonsense, netlink::to_string(event.error()), {}});
    return;
  }
  report_.note_problems(event->problems, timers_.now());
  if (event->type == api::EventType::error)
    request_.break_off(ending_of_event(event->status));
  else if (event->type == api::EventType::bookmark)
    take_bookmark(*event);
  else if (request_.step() == Step::streaming_list)
    take_listed(*event);
  else
    take_change(*event);
}

void Reflector::take_listed(api::WatchEvent& event) {
  const bool is_deleted = event.type == api::EventType::deleted;
  const auto why = api::why_unreadable(event.object, event.problems);
  if (event.name.name.empty())
    objects_.list_unnamed();
  else if (event.object && !is_deleted)
    objects_.list(event.name, event.resource_version, *std::move(event.object));
  else if (why && !is_deleted)
    objects_.list_unreadable(event.name);
  else
    objects_.list_deleted(event.name, event.resource_version);
  unreadable_.list(event.name, is_deleted ? std::nullopt : why);
}

void Reflector::take_change(api::WatchEvent& event) {
  const bool is_deleted = event.type == api::EventType::deleted;
  const auto why = is_deleted ? std::nullopt : api::why_unreadable(event.object, event.problems);
  const auto& version = event.resource_version;
  bool is_news = true;
  if (event.name.name.empty()) {
    objects_.advance(version);
    lists_.in_doubt = true;
    is_news = !is_deleted;
  } else if (why) {
    is_news = objects_.keep(event.name, version);
  } else if (event.object && !is_deleted) {
    is_news = objects_.put(event.name, version, *std::move(event.object), changes_);
  } else {
    is_news = objects_.remove(event.name, version, changes_);
  }
  if (!is_news) return;
  brake_.forget(event.name);
  unreadable_.set(event.name, why, changes_);
}

void Reflector::take_bookmark(const api::WatchEvent& event) {
  request_.note_bookmark();
  if (event.resource_version.empty()) {
    request_.break_off({Trouble::nonsense, "a bookmark without a resource version", {}});
  } else if (request_.step() == Step::streaming_list) {
    if (event.initial_events_end) finish_list(event.resource_version);
  } else if (objects_.bookmark(event.resource_version)) {
    older_ = {};
  } else if (auto older = older_.objection(objects_.version(), event.resource_version)) {
    request_.break_off(*std::move(older));
  }
}

void Reflector::take_item(api::ListItem item) {
  report_.note_problems(item.problems, timers_.now());
  const auto why = api::why_unreadable(item.object, item.problems);
  if (item.name.name.empty())
    objects_.list_unnamed();
  else if (item.object)
    objects_.list(item.name, "", *std::move(item.object));
  else if (why)
    objects_.list_unreadable(item.name);
  unreadable_.list(item.name, why);
}

void Reflector::take_envelope(std::string_view document) {
  auto envelope = api::decode_list_envelope(document, resource_.kind);
  if (!envelope)
    request_.break_off({Trouble::nonsense, netlink::to_string(envelope.error()), {}});
  else if (envelope->resource_version.empty())
    request_.break_off({Trouble::nonsense, "a list without a resource version", {}});
  else
    lists_.envelope = *std::move(envelope);
}

// The whole body of the page has come.
void Reflector::finish_page() {
  const auto envelope = *std::exchange(lists_.envelope, std::nullopt);
  if (request_.step() == Step::question) return judge_version(envelope.resource_version);
  request_.prepare_page(envelope.continue_token);
  if (envelope.continue_token.empty()) {
    finish_list(envelope.resource_version);
    if (request_.end_broken()) return;
    hand_over();
  }
  begin();
}

void Reflector::judge_version(const std::string& version) {
  if (auto older = older_.objection(objects_.version(), version))
    return request_.end(*std::move(older));
  request_.prepare(Step::watch);
  begin();
}

void Reflector::finish_list(std::string_view version) {
  auto older = older_.objection(objects_.version(), version);
  if (older && older->trouble == Trouble::older) {
    request_.break_off(*std::move(older));
    return;
  }
  older_ = {};
  auto missing = objects_.missing();
  missing.merge(unreadable_.missing(objects_));
  const auto known = unreadable_.count_with(objects_);
  const auto kept = brake_.judge(missing, known, lists_.begun, timers_.now());
  const auto [changed, gone] = objects_.end_list(version, kept, changes_);
  if (lists_.due && lists_.begun >= *lists_.due) lists_.due.reset();
  plan_list();
  unreadable_.end_list(kept, changes_);
  lists_.in_doubt = false;
  request_.go_on_as_watch();
  recovery_.note_listed();
  lists_.ended = true;
  report_.note_list(lists_.begun, objects_.size(), changed, gone);
}

void Reflector::hand_over() {
  report_.status.objects = objects_.size();
  report_.status.unreadable = unreadable_.size();
  if (brake_.held() != report_.status.held)
    report_.note_held(brake_.held(), unreadable_.count_with(objects_));
  const bool list_ended = std::exchange(lists_.ended, false);
  if (list_ended || request_.brought_news()) report_.note_recovery();
  if (list_ended || !changes_.empty()) on_changes_(std::exchange(changes_, {}));
}

void Reflector::list_again(Clock::time_point when) {
  lists_.due = when;
  plan_list();
}

void Reflector::plan_list() {
  const auto due = std::min(lists_.due.value_or(Clock::time_point::max()),
                            brake_.due().value_or(Clock::time_point::max()));
  if (due != Clock::time_point::max())
    timers_.at(resource_.name + " is listed again", std::max(due, timers_.now()),
               [this] { list_again(); });
}

// Only a watch is interrupted: a running list began before the request, and plans the next list at
// its end.
void Reflector::list_again() {
  if (request_.step() != Step::watch && request_.step() != Step::question) return;
  report_.note_list_again();
  begin_list();
  if (!request_.is_running()) return;  // the server is away, or busy
  request_.cancel();
  begin();
}

// --- the next step -------------------------------------------------------------------------------

void Reflector::on_ended(const EndedRequest& request, const Ending& ending) {
  const auto wait = recovery_.wait_after(request, ending, random_());
  report_.note_ending(request, ending, wait);
  const auto next = recovery_.next(request, ending, lists_.in_doubt);
  request_.prepare(next);
  if (next == recovery_.list_step()) begin_list();
  timers_.at(resource_.name + " begins", timers_.now() + wait, [this] { begin(); });
}

// --- the report ----------------------------------------------------------------------------------

void ReflectorReport::note_ending(const EndedRequest& request, const Ending& ending,
                                  milliseconds delay) {
  if (ending.trouble == Trouble::ended && request.step == Step::watch && delay.count() == 0) {
    log_.debug("{}: {}; going on at once", resource_, ending.cause);
    return;
  }
  ++status.failures;
  status.last_error = ending.cause;
  watch_log_.failed(resource_, ending.cause, delay);
}

void ReflectorReport::note_recovery() {
  if (status.last_error.empty()) return;
  status.last_error.clear();
  watch_log_.recovered(resource_);
}

void ReflectorReport::note_list(loop::Timers::Clock::time_point begun, std::size_t objects,
                                std::size_t changed, std::size_t gone) {
  status.is_listed = true;
  status.listed = begun;
  ++status.lists;
  log_.info("{}: {} listed; {} new or changed, {} gone", resource_, objects, changed, gone);
}

void ReflectorReport::note_list_again() {
  log_.debug("{}: everything is listed again", resource_);
}

void ReflectorReport::note_held(std::size_t held, std::size_t known) {
  const auto before = std::exchange(status.held, held);
  if (held > before)
    log_.warn(
        "{}: the list lacks {} of {}; they stay until another list lacks them, too "
        "(--mass-removal-brake)",
        resource_, held, known);
  else if (before > 0 && held == 0)
    log_.warn("{}: nothing that lists lack is kept any more", resource_);
}

}  // namespace ipvsproxier::watch
