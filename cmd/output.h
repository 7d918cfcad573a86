#pragma once

// Output: a descriptor that text is written to, in which nothing acts on a terminal. One thread;
// the descriptor stays the caller's.

#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::cmd {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  // Writes all of it, lines of whole characters, as visible_lines() (visible_text.h) shows them;
  // waits as long as the reader does. After a failure nothing more is written. Who writes what
  // others wrote into a line makes it visible() before: a newline in it would look like the end of
  // ours.
  netlink::Status write(std::string_view lines);

  // Whether a write failed because nobody reads any more: `head` has seen enough, which is no
  // reason to complain. (Mostly SIGPIPE ends the process before that.)
  bool reader_gone() const;

 private:
  int fd_;
  int sys_errno_ = 0;
};

// ipvsctl's one line for people on standard error (several where the text has them), as visible.
void complain(std::string_view text);

}  // namespace ipvsproxier::cmd
