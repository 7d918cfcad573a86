#pragma once

// A shell command on a terminal of its own, made for it, in the network namespace of the calling
// thread. What cannot be done throws std::runtime_error.

#include <sys/types.h>
#include <termios.h>

#include <string>

#include "netlink/unique_fd.h"
#include "test/kernel/patience.h"

namespace ipvsproxier::test {

class PtyCommand {
 public:
  // `bash -c command`, with TERM=xterm, 24 lines of 80 characters.
  explicit PtyCommand(const std::string& command);
  PtyCommand(const PtyCommand&) = delete;
  PtyCommand& operator=(const PtyCommand&) = delete;
  ~PtyCommand();  // kills it

  void type(const std::string& keys) const;
  void resize(unsigned short width, unsigned short height) const;
  // True as soon as the text came after what was waited for before; false at the end or after the
  // time, and standard error says what came.
  bool shows(const std::string& text, int timeout_ms = kPatience);
  // Whether the terminal has the settings that it began with.
  bool as_it_was() const;
  // Everything that came so far, escape codes included.
  const std::string& all() const { return output_; }
  // Exit status, or 128 and the signal, once it ended.
  int wait_for_end();

 private:
  bool read_more(int timeout_ms);
  void tell_missing(const std::string& text) const;
  termios settings() const;

  pid_t pid_ = -1;
  netlink::UniqueFd terminal_;
  termios before_{};
  std::string output_;
  std::size_t seen_ = 0;
};

}  // namespace ipvsproxier::test
