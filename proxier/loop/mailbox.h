#pragma once

// Mailbox: hands the newest of something from one thread to another. It holds one value; what is
// put while it waits there is merged into it. The only place with a lock.
//
// T is default-constructible, movable, and has `bool empty() const` and `void merge(T later)`.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

namespace ipvsproxier::loop {

template <typename T>
class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  // Any thread.
  void put(T more) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.merge(std::move(more));
    }
    changed_.notify_one();
  }

  // The reader's thread. Waits until there is something and `earliest` has come, until `latest`
  // at most, or until `stop` is requested. Answers what there is, which may be empty.
  T take(const std::stop_token& stop, Clock::time_point earliest, Clock::time_point latest) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, stop, latest, [this] { return !waiting_.empty(); });
    if (!waiting_.empty() && earliest > Clock::now())
      changed_.wait_until(lock, stop, std::min(earliest, latest), [] { return false; });
    return std::exchange(waiting_, T{});
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  T waiting_;
};

}  // namespace ipvsproxier::loop
