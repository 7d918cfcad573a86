#pragma once

// Terminal: the screen and keys of this process's terminal, through ncurses, which gives the
// terminal back as long as the process is stopped (SIGTSTP), and before SIGINT and SIGTERM end it.
// At most one object at a time, one thread. No colours, only bold and reverse.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cmd/ipvsctl/top/top_view.h"

namespace ipvsproxier::ctl {

struct Redraw {};  // the time passed, or there is a new size, or a key without meaning
struct Ended {};   // the terminal is gone
using TerminalEvent = std::variant<Redraw, Ended, char, TopKey>;

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
  // Waits for the first event, or until the time has passed; nullopt: as long as it takes.
  TerminalEvent wait(std::optional<std::chrono::milliseconds> limit);

 private:
  Terminal() = default;
};

}  // namespace ipvsproxier::ctl
