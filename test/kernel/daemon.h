#pragma once

// The real ipvs-proxier as a process in a network namespace: run to its end, or followed.
//
// It runs with the test's file system and environment. What cannot be started throws
// std::system_error; what does not end in time is killed and throws std::runtime_error with its
// log.

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "netlink/unique_fd.h"
#include "test/kernel/manifests.h"
#include "test/kernel/netns.h"
#include "test/kernel/patience.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

struct RunResult {
  int status = 0;   // exit status, or 128 and the signal that ended it
  std::string log;  // standard error and output
};

// `ipvs-proxier --manifests ... --config ... --once MORE...`
RunResult run_once(const Netns& netns, const Manifests& manifests,
                   const std::vector<std::string>& more = {});

struct Memory {
  std::size_t now = 0;   // bytes, resident
  std::size_t peak = 0;  // since the process began
};

// An ipvs-proxier that follows its manifests. One at a time; may be started again after it ended.
class Daemon {
 public:
  // Does not start it. The flags are Manifests::flags() and what the test adds; the packet filter
  // is that of packet_filter.h.
  Daemon(const Netns& netns, std::vector<std::string> flags);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();  // kills it if it runs

  void start();
  bool runs();                        // false also when it ended by itself
  pid_t pid() const { return pid_; }  // while it runs
  Memory memory() const;              // while it runs

  void signal(int number);
  // Waits until it ended by itself or by a signal; see RunResult::status.
  int wait_for_end(int timeout_ms = kPatience);
  int terminate();  // SIGTERM and wait_for_end()
  void kill();      // SIGKILL, and waits until it is gone; no error if it is gone already

  // Everything it wrote since the first start.
  std::string log() const;
  // From now on logs() looks only at what is written later.
  void mark();
  // True as soon as the log holds the text after the mark; false if it ended without, or after the
  // time.
  bool logs(const std::string& text, int timeout_ms = kPatience);

 private:
  const Netns& netns_;
  std::vector<std::string> flags_;
  TempDir dir_;
  std::size_t mark_ = 0;
  pid_t pid_ = -1;  // -1: none, or its end was seen
  netlink::UniqueFd process_;
  int status_ = 0;  // of the last one that ended
};

}  // namespace ipvsproxier::test
