#include "proxier/watch/current_request.h"

#include <algorithm>

#include "proxier/access/transport.h"
#include "proxier/api/wire.h"

namespace ipvsproxier::watch {

namespace {

using std::chrono::seconds;

constexpr seconds kSilence{60};        // of a list, and before the response head
constexpr seconds kWatchSilence{180};  // of a watch with bookmarks
constexpr seconds kListTime{120};      // for a page, or a whole streaming list
constexpr seconds kGrace{30};          // beyond a watch's own time limit
// A watch that lasted this long worked, even without events.
constexpr seconds kProven{10};
constexpr const char* kPage = "limit=500";
constexpr std::size_t kMostRefusal = std::size_t{64} << 10U;

// The path and query.
std::string target_of(const Resource& resource, const Asked& asked) {
  auto target = resource.path + "?" + resource.selector + (resource.selector.empty() ? "" : "&");
  const auto timeout = "&timeoutSeconds=" + std::to_string(asked.time_limit.count());
  switch (asked.step) {
    case Step::streaming_list:
      return target +
             "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
             "&allowWatchBookmarks=true" +
             timeout;
    case Step::first_page:
      return target + kPage;
    case Step::later_page:
      return target + kPage + "&continue=" + access::encode_query(asked.continue_token);
    case Step::question:
      return target + "limit=1";
    case Step::watch:
      break;
  }
  return target +
         "watch=1&allowWatchBookmarks=true&resourceVersion=" + access::encode_query(asked.version) +
         timeout;
}

}  // namespace

CurrentRequest::CurrentRequest(const Resource& resource, access::Transport& transport,
                               loop::Timers& timers, const std::function<double()>& random,
                               Reader& reader)
    : resource_(resource),
      transport_(transport),
      timers_(timers),
      random_(random),
      reader_(reader) {}

CurrentRequest::~CurrentRequest() {
  cancel_deadlines();
}

void CurrentRequest::prepare_page(std::string continue_token) {
  asked_.step = Step::later_page;
  asked_.continue_token = std::move(continue_token);
}

void CurrentRequest::begin() {
  const bool is_page = asked_.step != Step::streaming_list && asked_.step != Step::watch;
  framer_.emplace(is_page ? EventFramer::Mode::list : EventFramer::Mode::watch);
  head_ = {};
  refusal_.clear();
  broken_.reset();
  began_with_list_ = false;
  has_bookmarks_ = false;
  begun_ = heard_ = timers_.now();
  asked_.version = reader_.version();
  asked_.time_limit = is_page ? kListTime : seconds(300 + static_cast<int>(random_() * 301));
  exchange_ = transport_.open(access::Request{.target = target_of(resource_, asked_)}, *this);
  check_silence();
  check_end();
}

void CurrentRequest::go_on_as_watch() {
  // A complete list does not prove that the watch after it works.
  asked_.version = reader_.version();
  began_with_list_ = asked_.step == Step::streaming_list;
  asked_.step = Step::watch;
}

void CurrentRequest::note_bookmark() {
  if (asked_.step == Step::watch && !std::exchange(has_bookmarks_, true)) check_silence();
}

bool CurrentRequest::end_broken() {
  if (!broken_) return false;
  end(*std::exchange(broken_, std::nullopt));
  return true;
}

void CurrentRequest::cancel() {
  cancel_deadlines();
  exchange_->distrust_connection();
  exchange_.reset();
}

void CurrentRequest::cancel_deadlines() {
  timers_.cancel(resource_.name + " is silent");
  timers_.cancel(resource_.name + " is overdue");
}

// A request that waits for credentials counts from now.
CurrentRequest::Clock::time_point CurrentRequest::sent() const {
  const auto sent = exchange_->sent();
  return sent ? std::max(begun_, *sent) : timers_.now();
}

// An accepted watch may be silent as long as it lasts, unless its server is known to send bookmarks
// every minute.
void CurrentRequest::check_silence() {
  if (is_watching() && !has_bookmarks_) return;
  const auto due = std::max(heard_, sent()) + (is_watching() ? kWatchSilence : kSilence);
  if (timers_.now() >= due)
    end({Trouble::overdue,
         is_watching() ? "the server says nothing any more, not even bookmarks"
                       : "the server says nothing",
         {}});
  else
    timers_.at(resource_.name + " is silent", due, [this] { check_silence(); });
}

void CurrentRequest::check_end() {
  const auto due = sent() + (asked_.step == Step::watch ? asked_.time_limit + kGrace : kListTime);
  if (timers_.now() >= due)
    end({Trouble::overdue, "the server does not come to an end", {}});
  else
    timers_.at(resource_.name + " is overdue", due, [this] { check_end(); });
}

void CurrentRequest::on_head(const access::ResponseHead& head) {
  head_ = head;
  begun_ = sent();
  heard_ = timers_.now();
  if (head.status == 200) reader_.on_accepted();
}

void CurrentRequest::on_chunk(std::string_view chunk) {
  heard_ = timers_.now();
  if (head_.status != 200) {
    refusal_ += chunk.substr(0, kMostRefusal - refusal_.size());
    return;
  }
  const auto fed = framer_->feed(chunk, [this](EventFramer::Piece piece, std::string_view text) {
    if (!broken_) reader_.on_document(piece, text);
  });
  if (!fed && !broken_) break_off({Trouble::nonsense, netlink::to_string(fed.error()), {}});
  reader_.on_chunk_read();
  end_broken();
}

void CurrentRequest::on_end(const netlink::Status& outcome) {
  if (!outcome) {
    const bool is_broken = outcome.error().kind == netlink::ErrorKind::malformed;
    end({is_broken ? Trouble::nonsense : Trouble::lost, netlink::to_string(outcome.error()), {}});
    return;
  }
  if (head_.status != 200) {
    auto status = api::decode_status(refusal_);
    if (head_.retry_after)
      status.retry_after_seconds = static_cast<int>(head_.retry_after->count());
    end(ending_of_answer(head_.status, status, asked_.step, resource_.kind));
    return;
  }
  if (const auto finished = framer_->finish(); !finished)
    end({Trouble::nonsense, netlink::to_string(finished.error()), {}});
  else
    reader_.on_complete();
}

void CurrentRequest::end(Ending ending) {
  cancel_deadlines();
  if (ending.trouble == Trouble::unauthorized) exchange_->refuse_credentials();
  if (ending.trouble == Trouble::lost || ending.trouble == Trouble::overdue ||
      ending.trouble == Trouble::older)
    exchange_->distrust_connection();
  if (const auto server = exchange_->server();
      !server.empty() && ending.cause.find(server) == std::string::npos)
    ending.cause = server + ": " + ending.cause;
  exchange_.reset();
  const auto lasted = timers_.now() - begun_;
  const EndedRequest request{.step = asked_.step,
                             .status = head_.status,
                             .got_on = is_watching() && (brought_news() || lasted >= kProven),
                             .began_with_list = began_with_list_,
                             .lasted = lasted,
                             .time_limit = asked_.time_limit};
  reader_.on_ended(request, ending);
}

}  // namespace ipvsproxier::watch
