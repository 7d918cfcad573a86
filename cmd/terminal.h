#pragma once

// Terminal: the screen and the keys of the terminal that this process has for input and output,
// through ncurses. One at a time, one thread. While it is there SIGINT and SIGTERM are events; a
// stop (SIGTSTP) gives the terminal back for as long as it lasts. No colours, only bold and
// reverse.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "netlink/unique_fd.h"
#include "proxier/inspect/top_view.h"

namespace ipvsproxier::cmd {

struct TimePassed {};
struct Redraw {};  // another size, or a key that means nothing
struct Ended {
  int signal = 0;  // 0: there is no terminal any more
};
using TerminalEvent = std::variant<TimePassed, Redraw, Ended, char, inspect::TopKey>;

class Terminal {
 public:
  // nullptr where input or output is no terminal, or one that cannot move its cursor (TERM=dumb).
  static std::unique_ptr<Terminal> open();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();  // leaves the terminal as it was

  inspect::ScreenSize size() const;
  // Line `title` in reverse. Only what changed is sent.
  void draw(const std::vector<std::string>& text, std::size_t title);
  // What comes first.
  TerminalEvent wait(std::chrono::milliseconds timeout);

 private:
  struct Screen;
  Terminal(std::unique_ptr<Screen> screen, netlink::UniqueFd signals);

  std::unique_ptr<Screen> screen_;
  netlink::UniqueFd signals_;
};

}  // namespace ipvsproxier::cmd
