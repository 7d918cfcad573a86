#include "test/support/api_server/body.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ipvsproxier::test {
namespace {

// How long a connection goes without looking whether its client is still there.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

bool peer_is_gone(int socket) {
  pollfd look{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

bool wait_while_silent(ServerState& state, std::optional<Resource> resource, int socket) {
  const loop::MutexLock lock(state.mutex);
  while (state.vanished || state.faults_of(resource).silent_answer) {
    if (state.stopping || peer_is_gone(socket)) return false;
    state.changed.wait_for(state.mutex, kLook);
  }
  return true;
}

Body::Body(ServerState& state, std::optional<Resource> resource, int socket, Answer& answer)
    : state_(state),
      resource_(resource),
      socket_(socket),
      text_(std::move(answer.body)),
      watch_(std::move(answer.watch)) {}

Body::~Body() {
  if (!watch_) return;
  const loop::MutexLock lock(state_.mutex);
  state_.watches.erase(watch_.get());
  state_.changed.notify_all();
}

std::size_t Body::waiting() const {
  return watch_ ? watch_->pending().size() - watch_->taken() : text_.size() - sent_;
}

std::optional<ssize_t> Body::step(char* out, std::size_t size) {
  const auto& faults = state_.faults_of(resource_);
  if (state_.vanished || faults.silent || faults.silent_answer) return std::nullopt;
  if (faults.cut_after && sent_ >= *faults.cut_after) return kBroken;
  const auto now = Clock::now();
  if (watch_) watch_->pull(state_.store, faults, now);
  if (waiting() == 0) {
    if (watch_ && !watch_->ended()) return std::nullopt;
    return kEnd;
  }
  if (faults.bytes_per_second > 0) {
    if (now < next_byte_) return std::nullopt;
    next_byte_ = now + std::chrono::duration_cast<Clock::duration>(
                           std::chrono::duration<double>(1 / faults.bytes_per_second));
    size = 1;
  } else if (faults.tear > 0) {
    size =
        std::min(size, std::uniform_int_distribution<std::size_t>(1, faults.tear)(state_.random));
  }
  if (faults.cut_after) size = std::min(size, *faults.cut_after - sent_);
  size = std::min(size, waiting());
  std::memcpy(out, watch_ ? watch_->pending().data() + watch_->taken() : text_.data() + sent_,
              size);
  if (watch_) watch_->take(size);
  sent_ += size;
  return static_cast<ssize_t>(size);
}

ssize_t Body::read(char* out, std::size_t size) {
  const loop::MutexLock lock(state_.mutex);
  while (!state_.stopping) {
    if (const auto done = step(out, size)) return *done;
    auto until = Clock::now() + kLook;
    if (watch_) until = std::min(until, watch_->next_due());
    if (next_byte_ > Clock::now()) until = std::min(until, next_byte_);
    state_.changed.wait_until(state_.mutex, until);
    if (peer_is_gone(socket_)) return kBroken;
  }
  return kBroken;
}

}  // namespace ipvsproxier::test
