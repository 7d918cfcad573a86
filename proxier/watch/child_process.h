#pragma once

// ChildProcess: a program that runs beside the main loop, without input, in a process group of its
// own, for a bounded time and with bounded output. The main thread's.

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "netlink/result.h"
#include "netlink/unique_fd.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::watch {

struct ChildCommand {
  std::string program;  // a path, or a name that our PATH leads to
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // all of it, "NAME=VALUE"; of a name twice the last counts
  std::chrono::milliseconds time_limit{60'000};
  std::size_t most_output = std::size_t{1} << 20U;
};

struct ChildOutput {
  std::string output;
  std::string errors;  // the end of what it wrote to its standard error
};

class ChildProcess {
 public:
  using Then = std::function<void(netlink::Result<ChildOutput>)>;

  // Starts it; an error (ErrorKind::missing: there is no such program) when it cannot be. `name` is
  // that of a deadline of the loop. `then` is called once from the loop, when the program has ended
  // and closed its output, and may destroy this. An error: another exit status than 0, a signal,
  // too much output, no end within the time limit (the whole group is killed then).
  static netlink::Result<std::unique_ptr<ChildProcess>> start(loop::MainLoop& loop,
                                                              std::string name,
                                                              ChildCommand command, Then then);

  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills the group if it still runs; `then` is not called

 private:
  ChildProcess(loop::MainLoop& loop, std::string name, ChildCommand command, Then then);
  netlink::Status spawn();
  void follow();
  void read_output();
  void read_errors();
  void close(netlink::UniqueFd& end);
  void kill(netlink::Error why);
  void await_exit();
  void end(netlink::Result<ChildOutput> outcome);
  netlink::Result<ChildOutput> judge(int status);
  netlink::Error failure(netlink::ErrorKind kind, const std::string& how) const;

  loop::MainLoop& loop_;
  std::string name_;
  ChildCommand command_;
  Then then_;
  std::chrono::steady_clock::time_point deadline_;
  pid_t pid_ = -1;  // -1: not started, or waited for
  netlink::UniqueFd output_end_;
  netlink::UniqueFd error_end_;
  ChildOutput read_;
  std::unique_ptr<netlink::Error> killed_;  // why
};

}  // namespace ipvsproxier::watch
