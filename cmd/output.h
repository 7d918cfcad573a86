#pragma once

// Output: a descriptor that text is written to. One thread; the descriptor stays the caller's.

#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  // Writes all of it; waits as long as the reader does. After a failure nothing more is written.
  netlink::Status write(std::string_view text);

  // Whether a write failed because nobody reads any more: `head` has seen enough, which is no
  // reason to complain. (Mostly SIGPIPE ends the process before that.)
  bool reader_gone() const;

 private:
  int fd_;
  int sys_errno_ = 0;
};

}  // namespace ipvsproxier::cmd
