#pragma once

// MainLoop: one thread that waits for descriptors, deadlines, signals and words from other threads.
// On libcurl's curl_multi_poll, so that transfers can share it. Functions are called on the thread
// that runs run(), one at a time, and must not block. Only post() and quit() may be called from
// other threads. The constructor throws std::runtime_error where the system has no descriptors
// left.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ipvsproxier::loop {

class MainLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using Function = std::function<void()>;

  MainLoop();
  MainLoop(const MainLoop&) = delete;
  MainLoop& operator=(const MainLoop&) = delete;
  ~MainLoop();

  // Calls `on_readable` whenever `fd` (the caller's, who unwatches it before closing it) is
  // readable.
  void watch(int fd, Function on_readable);
  void unwatch(int fd);

  // Calls `then` once, not before `when`. There is one deadline a name: a new one replaces the old.
  void at(const std::string& name, Clock::time_point when, Function then);
  void cancel(const std::string& name);

  // Blocks these signals for the calling thread and those that it starts, and calls `then` with the
  // number of each that comes.
  void on_signals(const std::vector<int>& signals, std::function<void(int)> then);

  // Runs `function` on the loop's thread soon, in the order of the calls.
  void post(Function function);

  void run();  // until quit()
  void quit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::loop
