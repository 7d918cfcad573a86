#pragma once

// MainLoop: one thread that waits for file descriptors, deadlines, signals and functions from other
// threads. Built on libcurl's curl_multi_poll, so that HTTP transfers share the loop. Functions are
// called on the thread of run(), one at a time, and must not block. Only post() and quit() may be
// called from other threads, and not during the loop's destruction. A function may call anything
// except run().
//
// Throws std::runtime_error if the system has no descriptors left (constructor, on_signals()) or
// refuses to wait (run()).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxier/loop/timers.h"

namespace ipvsproxier::loop {

// One transfer of libcurl.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  virtual ~Transfer() = default;

  virtual void* easy() = 0;               // its CURL*; constant for its life
  virtual void on_done(int outcome) = 0;  // `outcome` is a CURLcode
};

class MainLoop final : public Timers {
 public:
  MainLoop();
  MainLoop(const MainLoop&) = delete;
  MainLoop& operator=(const MainLoop&) = delete;
  ~MainLoop() override;

  // Calls `on_readable` whenever `fd` is readable or has an error or hang-up. The caller owns `fd`
  // and unwatches it before closing it. A descriptor has one function: a new one replaces the old.
  void watch(int fd, Function on_readable);
  void unwatch(int fd);

  Clock::time_point now() const override { return Clock::now(); }
  void at(const std::string& name, Clock::time_point when, Function then) override;
  void cancel(const std::string& name) override;

  // Takes ownership of `transfer` and runs it from the next turn until on_done() or drop(). Its
  // callbacks are functions of the loop: they may start and drop transfers.
  void start(std::unique_ptr<Transfer> transfer);
  // Aborts the transfer if it is not done, and destroys it: at once, or, while a function of any
  // transfer is running, soon after that function has returned. Until then its callbacks may still
  // be called.
  void drop(Transfer& transfer);

  // Blocks these signals for the calling thread and for threads that it starts later. Calls `then`
  // with the number of each signal to the process or to the loop's thread; several signals of one
  // number may arrive as one. The signals stay blocked after the loop is gone.
  void on_signals(const std::vector<int>& signals, const std::function<void(int)>& then);

  // Any thread. Runs `function` on the loop's thread soon, in the order of the calls.
  void post(Function function);

  // Runs until quit(): returns once the current function has returned. Posted functions that have
  // not run wait for another run(), or are destroyed with the loop. A quit() before run() counts.
  void run();
  void quit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::loop
