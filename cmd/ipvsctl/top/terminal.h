#pragma once

// Terminal: the screen and keys of this process's terminal, through ncurses. At most one object at
// a time, one thread. During its life SIGINT and SIGTERM become events; SIGTSTP gives the terminal
// back until the process continues. No colours, only bold and reverse.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cmd/ipvsctl/top/top_view.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::ctl {

struct TimePassed {};
struct Redraw {};  // new size, or a key without meaning
struct Ended {
  int signal = 0;  // 0: the terminal is gone
};
using TerminalEvent = std::variant<TimePassed, Redraw, Ended, char, TopKey>;

class Terminal {
 public:
  // nullptr if input or output is no terminal, or if it cannot move its cursor (TERM=dumb).
  static std::unique_ptr<Terminal> open();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();  // restores the terminal

  ScreenSize size() const;
  // Shows the lines, line `title` in reverse. Sends only changes.
  void draw(const std::vector<std::string>& text, std::size_t title);
  // Waits for the first event, or for the timeout.
  TerminalEvent wait(std::chrono::milliseconds timeout);

 private:
  struct Screen;
  Terminal(std::unique_ptr<Screen> screen, netlink::UniqueFd signals);

  std::unique_ptr<Screen> screen_;
  netlink::UniqueFd signals_;
};

}  // namespace ipvsproxier::ctl
