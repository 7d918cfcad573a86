#pragma once

// Output: writes text to a descriptor without terminal control characters. One thread; the caller
// owns the descriptor.

#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::ctl {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  // Writes whole lines, shown as by visible_lines() (visible_text.h); blocks until the reader takes
  // them. After a failure later writes do nothing. Untrusted text inside a line must pass visible()
  // before: a newline in it would look like the end of our line.
  netlink::Status write(std::string_view lines);

  // Whether a write failed because the reader is gone (as with `head`), which is no reason to
  // complain. Usually SIGPIPE has ended the process before.
  bool reader_gone() const;

 private:
  int fd_;
  int sys_errno_ = 0;
};

// Prints ipvsctl's message on standard error, usually one line, as visible text.
void complain(std::string_view text);

}  // namespace ipvsproxier::ctl
