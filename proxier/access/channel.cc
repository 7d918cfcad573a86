#include "proxier/access/channel.h"

#include <utility>

#include <fmt/format.h>

#include "proxier/access/http_transfer.h"

namespace ipvsproxier::access {

namespace {

constexpr unsigned kMostFailedQuestions = 2;

// The values that identify a connection; credentials may change on a connection.
ClusterAccess way_of(ClusterAccess access) {
  access.bearer_token.clear();
  access.username.clear();
  access.password.clear();
  return access;
}

}  // namespace

Channel::Channel(loop::MainLoop& loop, std::string name, ClusterAccess access,
                 const PathCheck& check)
    : loop_(loop),
      name_(std::move(name)),
      check_(check),
      connections_(make_connections()),
      access_(std::move(access)) {}

Channel::~Channel() {
  loop_.cancel(name_);
  end_question();
}

bool Channel::is_for(const ClusterAccess& access) const {
  return !retired_ && way_of(access) == way_of(access_);
}

void Channel::join(Member& member, const ClusterAccess& access) {
  access_ = access;
  members_.insert(&member);
  if (multiplexed_ && !waiting_) heard(true);
}

void Channel::leave(Member& member) {
  members_.erase(&member);
}

void Channel::heard(bool is_multiplexed) {
  heard_ = loop_.now();
  multiplexed_ = multiplexed_ || is_multiplexed;
  const bool was_asked = question_ != nullptr;
  failed_questions_ = 0;
  end_question();
  if (multiplexed_ && (was_asked || !waiting_)) wait_until(heard_ + check_.silence);
}

void Channel::wait_until(loop::MainLoop::Clock::time_point when) {
  waiting_ = true;
  loop_.at(name_, when, [this] { check(); });
}

void Channel::check() {
  waiting_ = false;
  if (members_.empty()) return end_question();
  const auto now = loop_.now();
  if (question_ != nullptr) {
    const auto silence =
        std::chrono::duration_cast<std::chrono::seconds>(check_.silence + check_.patience);
    return give_up(
        fmt::format("the connection is dead: no sign of life for {} s", silence.count()));
  }
  if (now < heard_ + check_.silence) return wait_until(heard_ + check_.silence);
  ask();
  wait_until(now + check_.patience);
}

void Channel::ask() {
  ResponseHandler& handler = *this;
  auto question =
      std::make_unique<HttpTransfer>(access_, Request{.target = "/livez"}, handler, connections_);
  if (!question->prepared()) return;
  question_ = question.get();
  loop_.start(std::move(question));
}

void Channel::end_question() {
  if (question_ == nullptr) return;
  question_->forget_handler();
  loop_.drop(*std::exchange(question_, nullptr));
}

// Any answer proves that the path works.
void Channel::on_head(const ResponseHead& /*head*/) {
  if (question_->made_connection())
    give_up("the connection takes no more requests");
  else
    heard(true);
}

void Channel::on_chunk(std::string_view /*chunk*/) {}

// The connection broke before an answer, and the members learn that as well. Asked again soon.
void Channel::on_end(const netlink::Status& outcome) {
  end_question();
  if (++failed_questions_ >= kMostFailedQuestions)
    give_up("the connection is dead: " + (outcome ? "no answer" : to_string(outcome.error())));
}

void Channel::give_up(const std::string& why) {
  end_question();
  retire();
  const netlink::Error error{.kind = netlink::ErrorKind::timeout,
                             .where = fmt::format("{}: {}", access_.server, why)};
  for (auto* const member : std::exchange(members_, {})) member->on_dead_path(error);
}

}  // namespace ipvsproxier::access
