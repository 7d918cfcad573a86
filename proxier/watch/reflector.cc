#include "proxier/watch/reflector.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::watch {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kSilence{60};        // of a list, and before the response head
constexpr seconds kWatchSilence{180};  // of a watch with bookmarks
constexpr seconds kListTime{120};      // for a page, or a whole streaming list
constexpr seconds kGrace{30};          // beyond a watch's own time limit
// A watch that lasted this long worked, even without events.
constexpr seconds kProven{10};
constexpr std::size_t kMostRefusal = std::size_t{64} << 10U;

std::string too_large() {
  return fmt::format("is larger than {} bytes", EventFramer::kMaxDocument);
}

}  // namespace

Reflector::Reflector(Resource resource, access::Transport& transport, loop::Timers& timers,
                     std::function<double()> random, RemovalBrake brake, spdlog::logger& log,
                     WatchLog& watch_log, OnChanges on_changes)
    : resource_(std::move(resource)),
      transport_(transport),
      timers_(timers),
      random_(std::move(random)),
      log_(log),
      watch_log_(watch_log),
      on_changes_(std::move(on_changes)),
      objects_(resource_.kind),
      brake_(std::move(brake)),
      unreadable_(resource_.kind),
      problem_log_(resource_.name, log_) {}

Reflector::~Reflector() {
  for (const auto* deadline : {" begins", " is silent", " is overdue", " is listed again"})
    timers_.cancel(resource_.name + deadline);
}

void Reflector::start() {
  begin_list();
  begin();
}

// --- requests ------------------------------------------------------------------------------------

void Reflector::begin_list() {
  objects_.begin_list();
  unreadable_.begin_list();
  continue_token_.clear();
  step_ = recovery_.list_step();
}

void Reflector::begin() {
  const bool is_page = step_ != Step::streaming_list && step_ != Step::watch;
  framer_.emplace(is_page ? EventFramer::Mode::list : EventFramer::Mode::watch);
  head_ = {};
  refusal_.clear();
  envelope_.reset();
  broken_.reset();
  began_with_list_ = false;
  has_bookmarks_ = false;
  version_before_ = objects_.version();
  begun_ = heard_ = timers_.now();
  time_limit_ = is_page ? kListTime : seconds(300 + static_cast<int>(random_() * 301));
  if (!is_page) ++status_.watches;
  if (step_ == Step::streaming_list || step_ == Step::first_page) list_begun_ = begun_;
  exchange_ = transport_.open(
      access::Request{.target = target_of(
                          resource_, {step_, objects_.version(), continue_token_, time_limit_})},
      *this);
  check_silence();
  check_end();
}

// A request that waits for credentials counts from now.
Reflector::Clock::time_point Reflector::asked() const {
  const auto sent = exchange_->sent();
  return sent ? std::max(begun_, *sent) : timers_.now();
}

// An accepted watch may be silent as long as it lasts, unless its server is known to send bookmarks
// every minute.
void Reflector::check_silence() {
  const bool is_watching = step_ == Step::watch && head_.status == 200;
  if (is_watching && !has_bookmarks_) return;
  const auto due = std::max(heard_, asked()) + (is_watching ? kWatchSilence : kSilence);
  if (timers_.now() >= due)
    end({Trouble::overdue,
         is_watching ? "the server says nothing any more, not even bookmarks"
                     : "the server says nothing",
         {}});
  else
    timers_.at(resource_.name + " is silent", due, [this] { check_silence(); });
}

void Reflector::check_end() {
  const auto due = asked() + (step_ == Step::watch ? time_limit_ + kGrace : kListTime);
  if (timers_.now() >= due)
    end({Trouble::overdue, "the server does not come to an end", {}});
  else
    timers_.at(resource_.name + " is overdue", due, [this] { check_end(); });
}

// --- answers -------------------------------------------------------------------------------------

void Reflector::on_head(const access::ResponseHead& head) {
  head_ = head;
  begun_ = asked();
  heard_ = timers_.now();
  if (head.status != 200) return;
  status_.heard = heard_;
  recovery_.note_accepted();
  // A list counts as a recovery only when it is complete.
  if (step_ == Step::watch && recovery_.last_trouble() != Trouble::nonsense &&
      recovery_.last_trouble() != Trouble::expired)
    note_recovery();
}

void Reflector::on_chunk(std::string_view chunk) {
  heard_ = timers_.now();
  if (head_.status != 200) {
    refusal_ += chunk.substr(0, kMostRefusal - refusal_.size());
    return;
  }
  status_.heard = heard_;
  const auto fed = framer_->feed(chunk, [this](EventFramer::Piece piece, std::string_view text) {
    if (!broken_) take_piece(piece, text);
  });
  if (!fed && !broken_) broken_ = Ending{Trouble::nonsense, netlink::to_string(fed.error()), {}};
  hand_over();
  if (broken_) end(*std::exchange(broken_, std::nullopt));
}

void Reflector::on_end(const netlink::Status& outcome) {
  if (!outcome) {
    const bool is_broken = outcome.error().kind == netlink::ErrorKind::malformed;
    end({is_broken ? Trouble::nonsense : Trouble::lost, netlink::to_string(outcome.error()), {}});
    return;
  }
  if (head_.status != 200) {
    auto status = api::decode_status(refusal_);
    if (head_.retry_after)
      status.retry_after_seconds = static_cast<int>(head_.retry_after->count());
    end(ending_of_answer(head_.status, status, step_));
    return;
  }
  if (const auto finished = framer_->finish(); !finished) {
    end({Trouble::nonsense, netlink::to_string(finished.error()), {}});
    return;
  }
  if (envelope_)
    finish_page();
  else if (step_ == Step::watch)
    end({Trouble::ended, "the watch ended", {}});
  else
    end({Trouble::ended, "the list ended before it was complete", {}});
}

void Reflector::take_piece(EventFramer::Piece piece, std::string_view text) {
  switch (piece) {
    case EventFramer::Piece::event:
      return take_event(api::decode_watch_event(text, resource_.kind));
    case EventFramer::Piece::event_beginning:
      return take_event(api::outline_watch_event(text, resource_.kind, too_large()));
    case EventFramer::Piece::item:
      if (step_ != Step::question) take_item(api::decode_list_item(text, resource_.kind));
      return;
    case EventFramer::Piece::item_beginning:
      if (step_ != Step::question)
        take_item(api::outline_list_item(text, resource_.kind, too_large()));
      return;
    case EventFramer::Piece::envelope:
      return take_envelope(text);
  }
}

void Reflector::take_event(netlink::Result<api::WatchEvent> event) {
  if (!event) {
    broken_ = Ending{Trouble::nonsense, netlink::to_string(event.error()), {}};
    return;
  }
  problem_log_.tell(event->problems, timers_.now());
  if (event->type == api::EventType::error)
    broken_ = ending_of_event(event->status);
  else if (event->type == api::EventType::bookmark)
    take_bookmark(*event);
  else if (step_ == Step::streaming_list)
    take_listed(*event);
  else
    take_change(*event);
}

void Reflector::take_listed(api::WatchEvent& event) {
  const bool is_deleted = event.type == api::EventType::deleted;
  const auto why = why_unreadable(event.object, event.problems);
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
  const auto why = is_deleted ? std::nullopt : why_unreadable(event.object, event.problems);
  const auto& version = event.resource_version;
  bool is_news = true;
  if (event.name.name.empty()) {
    objects_.advance(version);
    in_doubt_ = true;
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
  if (step_ == Step::watch && !std::exchange(has_bookmarks_, true)) check_silence();
  if (event.resource_version.empty()) {
    broken_ = Ending{Trouble::nonsense, "a bookmark without a resource version", {}};
  } else if (step_ == Step::streaming_list) {
    if (event.initial_events_end) finish_list(event.resource_version);
  } else if (objects_.bookmark(event.resource_version)) {
    older_ = {};
  } else {
    broken_ = older_.objection(objects_.version(), event.resource_version);
  }
}

void Reflector::take_item(api::ListItem item) {
  problem_log_.tell(item.problems, timers_.now());
  const auto why = why_unreadable(item.object, item.problems);
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
    broken_ = Ending{Trouble::nonsense, netlink::to_string(envelope.error()), {}};
  else if (envelope->resource_version.empty())
    broken_ = Ending{Trouble::nonsense, "a list without a resource version", {}};
  else
    envelope_ = *std::move(envelope);
}

// The whole body of the page has come.
void Reflector::finish_page() {
  const auto envelope = *std::exchange(envelope_, std::nullopt);
  if (step_ == Step::question) return judge_version(envelope.resource_version);
  continue_token_ = envelope.continue_token;
  step_ = Step::later_page;
  if (continue_token_.empty()) {
    finish_list(envelope.resource_version);
    if (broken_) return end(*std::exchange(broken_, std::nullopt));
    hand_over();
  }
  begin();
}

void Reflector::judge_version(const std::string& version) {
  if (auto older = older_.objection(objects_.version(), version)) return end(*std::move(older));
  step_ = Step::watch;
  begin();
}

void Reflector::finish_list(std::string_view version) {
  auto older = older_.objection(objects_.version(), version);
  if (older && older->trouble == Trouble::older) {
    broken_ = std::move(older);
    return;
  }
  older_ = {};
  auto missing = objects_.missing();
  missing.merge(unreadable_.missing(objects_));
  const auto known = unreadable_.count_with(objects_);
  const auto kept = brake_.judge(missing, known, list_begun_, timers_.now());
  const auto [changed, gone] = objects_.end_list(version, kept, changes_);
  if (list_due_ && list_begun_ >= *list_due_) list_due_.reset();
  plan_list();
  unreadable_.end_list(kept, changes_);
  in_doubt_ = false;
  // A complete list does not prove that the watch after it works.
  version_before_ = objects_.version();
  began_with_list_ = step_ == Step::streaming_list;
  step_ = Step::watch;
  recovery_.note_listed();
  list_ended_ = true;
  status_.is_listed = true;
  status_.listed = list_begun_;
  ++status_.lists;
  log_.info("{}: {} listed; {} new or changed, {} gone", resource_.name, objects_.size(), changed,
            gone);
}

void Reflector::hand_over() {
  status_.objects = objects_.size();
  status_.unreadable = unreadable_.size();
  note_held();
  const bool list_ended = std::exchange(list_ended_, false);
  if (list_ended || objects_.version() != version_before_) note_recovery();
  if (list_ended || !changes_.empty()) on_changes_(std::exchange(changes_, {}));
}

void Reflector::note_held() {
  const auto before = std::exchange(status_.held, brake_.held());
  if (status_.held > before)
    log_.warn(
        "{}: the list lacks {} of {}; they stay until another list lacks them, too "
        "(--mass-removal-brake)",
        resource_.name, status_.held, unreadable_.count_with(objects_));
  else if (before > 0 && status_.held == 0)
    log_.warn("{}: nothing that lists lack is kept any more", resource_.name);
}

void Reflector::list_again(Clock::time_point when) {
  list_due_ = when;
  plan_list();
}

void Reflector::plan_list() {
  const auto due = std::min(list_due_.value_or(Clock::time_point::max()),
                            brake_.due().value_or(Clock::time_point::max()));
  if (due != Clock::time_point::max())
    timers_.at(resource_.name + " is listed again", std::max(due, timers_.now()),
               [this] { list_again(); });
}

// Only a watch is interrupted: a running list began before the request, and plans the next list at
// its end.
void Reflector::list_again() {
  if (step_ != Step::watch && step_ != Step::question) return;
  log_.debug("{}: everything is listed again", resource_.name);
  begin_list();
  if (!exchange_) return;  // the server is away, or busy
  exchange_->distrust_connection();
  exchange_.reset();
  begin();
}

// --- the next step -------------------------------------------------------------------------------

void Reflector::end(Ending ending) {
  timers_.cancel(resource_.name + " is silent");
  timers_.cancel(resource_.name + " is overdue");
  if (ending.trouble == Trouble::unauthorized) exchange_->refuse_credentials();
  if (ending.trouble == Trouble::lost || ending.trouble == Trouble::overdue ||
      ending.trouble == Trouble::older)
    exchange_->distrust_connection();
  if (const auto server = exchange_->server();
      !server.empty() && ending.cause.find(server) == std::string::npos)
    ending.cause = server + ": " + ending.cause;
  exchange_.reset();

  const EndedRequest request{.step = step_,
                             .status = head_.status,
                             .got_on = got_on(),
                             .began_with_list = began_with_list_,
                             .lasted = timers_.now() - begun_,
                             .time_limit = time_limit_};
  const auto wait = recovery_.wait_after(request, ending, random_());
  note_ending(ending, wait);
  step_ = recovery_.next(request, ending, in_doubt_);
  if (step_ == recovery_.list_step()) begin_list();
  timers_.at(resource_.name + " begins", timers_.now() + wait, [this] { begin(); });
}

// Whether the ending watch made progress.
bool Reflector::got_on() const {
  return step_ == Step::watch && head_.status == 200 &&
         (objects_.version() != version_before_ || timers_.now() - begun_ >= kProven);
}

void Reflector::note_ending(const Ending& ending, milliseconds delay) {
  if (ending.trouble == Trouble::ended && step_ == Step::watch && delay.count() == 0) {
    log_.debug("{}: {}; going on at once", resource_.name, ending.cause);
    return;
  }
  ++status_.failures;
  status_.last_error = ending.cause;
  watch_log_.failed(resource_.name, ending.cause, delay);
}

void Reflector::note_recovery() {
  if (status_.last_error.empty()) return;
  status_.last_error.clear();
  watch_log_.recovered(resource_.name);
}

}  // namespace ipvsproxier::watch
