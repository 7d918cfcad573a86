#include "cmd/ipvsctl/top/terminal.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <utility>

#include <curses.h>
// Must come last: its macros have common names.
#include <term.h>

namespace ipvsproxier::ctl {

namespace {

// Checked before ncurses can write anything.
bool can_show_screens() {
  int found = 0;
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0 ||
      setupterm(nullptr, STDOUT_FILENO, &found) != OK)
    return false;
  const bool can_move = cursor_address != nullptr;
  del_curterm(cur_term);
  return can_move;
}

// Signals whose handler is ours and calls ncurses: they come only while nothing else of it runs, in
// wait().
sigset_t held_signals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&held, signal);
  return held;
}

// ncurses' own handler would end the process with a status that does not tell the signal.
void end_by(int signal) {
  endwin();
  std::signal(signal, SIG_DFL);
  const auto held = held_signals();
  sigprocmask(SIG_UNBLOCK, &held, nullptr);
  std::raise(signal);
}

void handle_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM})
    if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
}

TerminalEvent event_of(int key) {
  constexpr std::array<std::pair<int, TopKey>, 12> kKeys = {{{KEY_UP, TopKey::up},
                                                             {KEY_DOWN, TopKey::down},
                                                             {KEY_PPAGE, TopKey::page_up},
                                                             {KEY_NPAGE, TopKey::page_down},
                                                             {KEY_HOME, TopKey::home},
                                                             {KEY_ENTER, TopKey::enter},
                                                             {'\n', TopKey::enter},
                                                             {'\r', TopKey::enter},
                                                             {'\x1b', TopKey::escape},
                                                             {KEY_BACKSPACE, TopKey::backspace},
                                                             {'\b', TopKey::backspace},
                                                             {'\x7f', TopKey::backspace}}};
  for (const auto& [code, meaning] : kKeys)
    if (code == key) return meaning;
  if (key >= ' ' && key <= '~') return static_cast<char>(key);
  return Redraw{};
}

}  // namespace

std::unique_ptr<Terminal> Terminal::open() {
  if (!can_show_screens()) return nullptr;
  const auto held = held_signals();
  sigprocmask(SIG_BLOCK, &held, nullptr);
  handle_signals(end_by);
  if (newterm(nullptr, stdout, stdin) == nullptr) {
    handle_signals(SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &held, nullptr);
    return nullptr;
  }
  constexpr int kEscapeWait = 50;  // ms to wait for further bytes after Escape
  set_escdelay(kEscapeWait);
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, TRUE);
  return std::unique_ptr<Terminal>(new Terminal());
}

Terminal::~Terminal() {
  endwin();
  handle_signals(SIG_DFL);
  delscreen(set_term(nullptr));
  const auto held = held_signals();
  sigprocmask(SIG_UNBLOCK, &held, nullptr);
}

ScreenSize Terminal::size() const {
  return {.width = static_cast<std::size_t>(getmaxx(stdscr)),
          .height = static_cast<std::size_t>(getmaxy(stdscr))};
}

void Terminal::draw(const std::vector<std::string>& text, std::size_t title) {
  erase();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == title) attron(A_REVERSE);
    mvaddnstr(static_cast<int>(i), 0, text[i].data(), static_cast<int>(text[i].size()));
    if (i == title) attroff(A_REVERSE);
  }
  // While ncurses draws it ignores ^Z; of a signal that is blocked the kernel keeps it for later.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
  refresh();
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
}

TerminalEvent Terminal::wait(std::optional<std::chrono::milliseconds> limit) {
  timeout(0);
  int key = getch();
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  if (key == ERR) {
    const auto count = limit.value_or(std::chrono::milliseconds(0)).count();
    const timespec time{.tv_sec = count / 1000, .tv_nsec = count % 1000 * 1'000'000};
    sigset_t open;
    sigprocmask(SIG_BLOCK, nullptr, &open);
    for (const int signal : {SIGINT, SIGTERM}) sigdelset(&open, signal);
    ppoll(&input, 1, limit ? &time : nullptr, &open);
    key = getch();
  }
  if (key != ERR) return event_of(key);
  // A terminal that is gone is always ready, and has nothing.
  const bool gone = (input.revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0;
  return gone ? TerminalEvent(Ended{}) : TerminalEvent(Redraw{});
}

}  // namespace ipvsproxier::ctl
