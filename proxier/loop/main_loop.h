#pragma once

// MainLoop: one thread that waits for descriptors, deadlines, signals and words from other threads.
// On libcurl's curl_multi_poll, so that transfers can share it. Functions are called on the thread
// that runs run(), one at a time, and must not block. Only post() and quit() may be called from
// other threads, and not while the loop is destroyed. A function may call everything but run().
//
// std::runtime_error is thrown where the system has no descriptors left (constructor, on_signals())
// or refuses to wait (run()).

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
  // readable, or has an error or an end to tell. There is one function a descriptor: a new one
  // replaces the old.
  void watch(int fd, Function on_readable);
  void unwatch(int fd);

  // Calls `then` once, not before `when`. There is one deadline a name: a new one replaces the old.
  // Deadlines that have passed are called in their order.
  void at(const std::string& name, Clock::time_point when, Function then);
  void cancel(const std::string& name);

  // Blocks these signals for the calling thread and those that it starts, and calls `then` with the
  // number of each that comes to the process or to the loop's thread (several of one number may be
  // one). They stay blocked when the loop is gone.
  void on_signals(const std::vector<int>& signals, const std::function<void(int)>& then);

  // Runs `function` on the loop's thread soon, in the order of the calls.
  void post(Function function);

  // Until quit(): returns when the function that is running has returned. What was posted before
  // and has not run waits for another run(), or goes with the loop. A quit() before run() counts.
  void run();
  void quit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::loop
