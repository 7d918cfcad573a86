#include "proxier/watch/event_recorder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/wire.h"
#include "proxier/watch/ending.h"

namespace ipvsproxier::watch {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{10'000};         // between two attempts
constexpr std::chrono::seconds kPatience{30};  // for one request
constexpr std::chrono::minutes kSeriesEnds{6};
constexpr unsigned kRefreshLooks = 5;  // every half hour
constexpr std::size_t kMostRefusalText = 4096;
constexpr const char* kOverdue = "events overdue";
constexpr const char* kLook = "events series";

std::string words_of(const ClusterEvent& event) {
  const auto& about = event.regarding;
  return fmt::format("Event {} of {} {}{}{}", event.reason, about.kind, about.ns,
                     about.ns.empty() ? "" : "/", about.name);
}

}  // namespace

EventRecorder::EventRecorder(std::string host, access::Transport& transport, loop::Timers& timers,
                             std::function<double()> random, spdlog::logger& log, WallClock wall)
    : host_(std::move(host)),
      transport_(transport),
      timers_(timers),
      random_(std::move(random)),
      log_(log),
      wall_(std::move(wall)) {}

EventRecorder::~EventRecorder() {
  timers_.cancel(kOverdue);
  timers_.cancel(kLook);
  for (const auto& [key, kept] : kept_) timers_.cancel(deadline_of(kept));
}

EventRecorder::Key EventRecorder::key_of(const ClusterEvent& event) {
  return {event.level, event.action, event.reason, event.regarding};
}

std::string EventRecorder::deadline_of(const Kept& kept) const {
  return fmt::format("events {}", kept.number);
}

void EventRecorder::record(ClusterEvent event) {
  const auto now = wall_();
  const auto key = key_of(event);
  if (const auto found = kept_.find(key); found != kept_.end()) {
    auto& kept = found->second;
    kept.record.last = now;
    kept.ends = false;
    if (++kept.record.count == 2) tell(kept);
    return;
  }
  if (kept_.size() >= kMostKept) {
    if (!std::exchange(is_full_, true))
      log_.warn("{} Events wait or may repeat; new ones are not told until some are over",
                kept_.size());
    return;
  }
  if (kept_.empty()) timers_.at(kLook, timers_.now() + kSeriesEnds, [this] { look_at_series(); });
  auto name = event_name(event.regarding, now, random_);
  auto& kept = kept_[key];
  kept.record = {
      .event = std::move(event), .host = host_, .name = std::move(name), .first = now, .last = now};
  kept.number = ++numbers_;
  tell(kept);
}

void EventRecorder::tell(Kept& kept) {
  kept.wanted = true;
  if (std::exchange(kept.busy, true)) return;
  ++busy_;
  queue_.push_back(&kept);
  send_next();
}

void EventRecorder::send_next() {
  if (sending_.kept != nullptr || queue_.empty()) return;
  auto& kept = *queue_.front();
  queue_.pop_front();
  kept.wanted = false;
  const auto method = kept.told == 0 ? access::Method::post : access::Method::patch;
  sending_ = {.kept = &kept,
              .exchange = nullptr,
              .method = method,
              .count = kept.record.count,
              .head = {},
              .refusal = {}};
  access::Request request{
      .method = method,
      .target = "/apis/events.k8s.io/v1/namespaces/" + namespace_of(kept.record.event) + "/events",
      .content_type = "application/json"};
  if (method == access::Method::post) {
    request.body = event_document(kept.record);
  } else {
    request.target += "/" + kept.record.name;
    request.content_type = kSeriesPatchType;
    request.body = series_patch(kept.record);
  }
  timers_.at(kOverdue, timers_.now() + kPatience, [this] {
    on_end(netlink::Error{.kind = netlink::ErrorKind::timeout, .where = "the server says nothing"});
  });
  sending_.exchange = transport_.open(std::move(request), *this);
}

void EventRecorder::on_head(const access::ResponseHead& head) {
  sending_.head = head;
}

void EventRecorder::on_chunk(std::string_view chunk) {
  if (sending_.head.status < 300) return;
  sending_.refusal += chunk.substr(0, kMostRefusalText - sending_.refusal.size());
}

void EventRecorder::on_end(const netlink::Status& outcome) {
  timers_.cancel(kOverdue);
  auto& kept = *std::exchange(sending_.kept, nullptr);
  if (outcome && sending_.head.status == 401) sending_.exchange->refuse_credentials();
  sending_.exchange.reset();
  if (outcome)
    take_answer(kept);
  else
    try_again(kept, netlink::to_string(outcome.error()), pause());
  send_next();
  if (busy_ == 0) on_idle_();
}

void EventRecorder::take_answer(Kept& kept) {
  const int code = sending_.head.status;
  if (code < 300) {
    kept.told = sending_.count;
    return finish(kept);
  }
  const auto status = api::decode_status(sending_.refusal);
  const auto cause =
      fmt::format("the server answered {} {}: {}", code, status.reason, status.message);
  if (code == 404 && sending_.method == access::Method::patch) {
    kept.told = 0;
    kept.wanted = true;
    return finish(kept);
  }
  // An earlier attempt without an answer had arrived.
  if (code == 409 && sending_.method == access::Method::post) {
    kept.told = 1;
    kept.wanted = kept.wanted || kept.record.count > 1;
    return finish(kept);
  }
  if (code == 401 && !std::exchange(kept.asked_again, true)) return try_again(kept, cause, pause());
  const bool comes_back = code == 429 || code >= 500;
  if (comes_back && sending_.head.retry_after) {
    const auto wait = std::min(*sending_.head.retry_after, kLongestRetryAfter);
    return try_again(kept, cause, std::max<milliseconds>(pause(), wait));
  }
  limit_.log(spdlog::level::info,
             fmt::format("{} is not told: {}", words_of(kept.record.event), cause), timers_.now());
  finish(kept);
}

milliseconds EventRecorder::pause() {
  return kPause + milliseconds(static_cast<milliseconds::rep>(static_cast<double>(kPause.count()) *
                                                              0.25 * random_()));
}

void EventRecorder::try_again(Kept& kept, const std::string& cause, milliseconds pause) {
  if (++kept.attempts >= kAttempts) {
    limit_.log(spdlog::level::warn,
               fmt::format("{} is not told: {}; given up after {} attempts",
                           words_of(kept.record.event), cause, kept.attempts),
               timers_.now());
    return finish(kept);
  }
  log_.debug("{}: {}; again in {:.1f} s", words_of(kept.record.event), cause,
             static_cast<double>(pause.count()) / 1000);
  timers_.at(deadline_of(kept), timers_.now() + pause, [this, &kept] {
    queue_.push_back(&kept);
    send_next();
  });
}

// The Event was sent or given up; meanwhile it may have new changes.
void EventRecorder::finish(Kept& kept) {
  kept.attempts = 0;
  if (kept.wanted) {
    queue_.push_back(&kept);
    return;
  }
  kept.busy = false;
  kept.asked_again = false;
  --busy_;
  if (kept.ends) kept_.erase(key_of(kept.record.event));
}

void EventRecorder::look_at_series() {
  const bool refreshes = ++looks_ % kRefreshLooks == 0;
  const auto now = wall_();
  for (auto it = kept_.begin(); it != kept_.end();) {
    auto& kept = it->second;
    const bool is_over = now - kept.record.last >= kSeriesEnds;
    const bool has_news = kept.record.count > 1 && kept.told != kept.record.count;
    if (!kept.busy && is_over && !has_news) {
      it = kept_.erase(it);
      continue;
    }
    ++it;
    if (kept.busy || !has_news || (!is_over && !refreshes)) continue;
    kept.ends = is_over;
    tell(kept);
  }
  is_full_ = kept_.size() >= kMostKept;
  if (!kept_.empty()) timers_.at(kLook, timers_.now() + kSeriesEnds, [this] { look_at_series(); });
}

}  // namespace ipvsproxier::watch
