#pragma once

// MainLoop: one thread that waits for descriptors, deadlines, signals and words from other threads.
// On libcurl's curl_multi_poll, so that transfers can share it. Functions are called on the thread
// that runs run(), one at a time, and must not block. Only post() and quit() may be called from
// other threads, and not while the loop is destroyed. A function may call everything but run().
//
// std::runtime_error is thrown where the system has no descriptors left (constructor, on_signals())
// or refuses to wait (run()).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxier/loop/timers.h"

namespace ipvsproxier::loop {

// One transfer of curl.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  virtual void* easy() = 0;               // its CURL*, the same while this lives
  virtual void on_done(int outcome) = 0;  // a CURLcode
};

class MainLoop final : public Timers {
 public:
  MainLoop();
  MainLoop(const MainLoop&) = delete;
  MainLoop& operator=(const MainLoop&) = delete;
  ~MainLoop() override;

  // Calls `on_readable` whenever `fd` (the caller's, who unwatches it before closing it) is
  // readable, or has an error or an end to tell. There is one function a descriptor: a new one
  // replaces the old.
  void watch(int fd, Function on_readable);
  void unwatch(int fd);

  Clock::time_point now() const override { return Clock::now(); }
  void at(const std::string& name, Clock::time_point when, Function then) override;
  void cancel(const std::string& name) override;

  // Keeps `transfer` and runs it from the next turn on, until on_done() or drop(). Its callbacks
  // are functions of the loop like all others: they may start and drop transfers.
  void start(std::unique_ptr<Transfer> transfer);
  // Ends it, if it is not done, and destroys it: at once, or, if a function of some transfer is
  // running, soon after that has returned; until then its callbacks may still be called.
  void drop(Transfer& transfer);

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
