#pragma once

// ChildProcess: a program that runs beside the main loop, without input, in its own process group,
// with limits on time and output. Main thread only.

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

namespace ipvsproxier::access {

struct ChildCommand {
  std::string program;  // a path, or a name that is looked up in PATH
  std::vector<std::string> arguments;
  // The whole environment as "NAME=VALUE"; of a repeated name the last value counts.
  std::vector<std::string> environment;
  std::chrono::milliseconds time_limit{60'000};
  std::size_t most_output = std::size_t{1} << 20U;
};

struct ChildOutput {
  std::string output;
  std::string errors;  // the end of its standard error
};

class ChildProcess {
 public:
  using Then = std::function<void(netlink::Result<ChildOutput>)>;

  // Starts the program; returns an error if that fails (ErrorKind::missing: no such program).
  // `name` is the name of a deadline of the loop. `then` is called once from the loop, after the
  // program has exited and closed its output, and may destroy this object. It gets an error for: an
  // exit status other than 0, a signal, too much output, or no exit within the time limit (the
  // whole group is then killed).
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
  pid_t pid_ = -1;  // -1: not started, or already waited for
  netlink::UniqueFd output_end_;
  netlink::UniqueFd error_end_;
  ChildOutput read_;
  std::unique_ptr<netlink::Error> killed_;  // the reason, once killed
};

}  // namespace ipvsproxier::access
