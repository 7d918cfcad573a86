#pragma once

// Mailbox: passes the newest value of a type from other threads to one reader thread. It holds one
// value; a value put later is merged into the waiting one. Mutex and MutexLock, the only locks of
// the project, are here as well: clang checks that guarded members are used under them.
//
// T is default-constructible and movable, and has `bool empty() const` and `void merge(T later)`.
// An optional `bool urgent() const` lets the reader take a value before its `earliest` time.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#ifdef __clang__
#define IPVSPROXIER_THREADS(attribute) __attribute__((attribute))
#else
#define IPVSPROXIER_THREADS(attribute)
#endif

namespace ipvsproxier::loop {

// std::mutex with clang's thread-safety attributes, which libstdc++ lacks.
class IPVSPROXIER_THREADS(capability("mutex")) Mutex {
 public:
  void lock() IPVSPROXIER_THREADS(acquire_capability()) { mutex_.lock(); }
  void unlock() IPVSPROXIER_THREADS(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class IPVSPROXIER_THREADS(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) IPVSPROXIER_THREADS(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() IPVSPROXIER_THREADS(release_capability()) { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

template <typename T>
class Mailbox {
 public:
  using Clock = std::chrono::steady_clock;

  // Any thread. Merges `more` into the waiting value.
  void put(T more) {
    {
      const MutexLock lock(mutex_);
      waiting_.merge(std::move(more));
    }
    changed_.notify_one();
  }

  // The reader's thread. Waits until a value is there and `earliest` has come, or `latest` has
  // come, or `stop` is requested. Returns the value, which may be empty.
  T take(const std::stop_token& stop, Clock::time_point earliest, Clock::time_point latest) {
    const MutexLock lock(mutex_);
    const auto any = [this]() IPVSPROXIER_THREADS(requires_capability(mutex_)) {
      return !waiting_.empty();
    };
    changed_.wait_until(mutex_, stop, latest, any);
    const auto urgent = [this]() IPVSPROXIER_THREADS(requires_capability(mutex_)) {
      return is_urgent();
    };
    // Waits for the time, not for a value: later values are merged meanwhile.
    if (any() && earliest > Clock::now())
      changed_.wait_until(mutex_, stop, std::min(earliest, latest), urgent);
    return std::exchange(waiting_, T{});
  }

  // The reader's thread. Returns the current value without waiting.
  T take() {
    const MutexLock lock(mutex_);
    return std::exchange(waiting_, T{});
  }

  // The reader's thread. Whether a value is waiting.
  bool waiting() const {
    const MutexLock lock(mutex_);
    return !waiting_.empty();
  }

  // The reader's thread. Whether the waiting value is urgent.
  bool urgent() const {
    const MutexLock lock(mutex_);
    return is_urgent();
  }

 private:
  bool is_urgent() const IPVSPROXIER_THREADS(requires_capability(mutex_)) {
    if constexpr (requires(const T& value) { value.urgent(); })
      return waiting_.urgent();
    else
      return false;
  }

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  T waiting_ IPVSPROXIER_THREADS(guarded_by(mutex_)){};
};

}  // namespace ipvsproxier::loop
