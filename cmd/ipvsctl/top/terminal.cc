#include "cmd/ipvsctl/top/terminal.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include <curses.h>
// Must come last: its macros have common names.
#include <term.h>

namespace ipvsproxier::ctl {

namespace {

// Checked before ncurses can write anything.
bool can_show_screens() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return false;
  int found = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &found) != OK) return false;
  const char* const moves = tigetstr("cup");
  const bool can = moves != nullptr && moves != reinterpret_cast<const char*>(-1);
  del_curterm(cur_term);
  return can;
}

// The signals that wait() handles.
sigset_t own_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGTSTP);
  return signals;
}

// ncurses would install a handler for SIGTSTP and ignore the signal while it draws, which would
// lose a ^Z. It leaves a signal with a handler alone; this handler never runs, because the signal
// is blocked.
void keep_stop_from_curses() {
  if (std::signal(SIGTSTP, [](int) {}) == SIG_IGN) std::signal(SIGTSTP, SIG_IGN);
}

// Restores the terminal and stops, as the shell expects; returns when the process continues.
void stop_here() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  auto* const handler = std::signal(SIGTSTP, SIG_DFL);
  if (handler != SIG_IGN) {
    endwin();
    std::raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &stop, nullptr);
    sigprocmask(SIG_BLOCK, &stop, nullptr);
    // Settings that were changed meanwhile become those to restore later.
    def_shell_mode();
    clearok(curscr, TRUE);
    refresh();
  }
  std::signal(SIGTSTP, handler);
}

void give_signals_back() {
  // ncurses installs handlers that end the process with a meaningless status.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  if (std::signal(SIGTSTP, SIG_DFL) == SIG_IGN) std::signal(SIGTSTP, SIG_IGN);
  const auto signals = own_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

TerminalEvent event_of(int key) {
  constexpr int kEscape = 27;
  constexpr int kDelete = 127;
  switch (key) {
    case KEY_UP:
      return TopKey::up;
    case KEY_DOWN:
      return TopKey::down;
    case KEY_PPAGE:
      return TopKey::page_up;
    case KEY_NPAGE:
      return TopKey::page_down;
    case KEY_HOME:
      return TopKey::home;
    case KEY_ENTER:
    case '\n':
    case '\r':
      return TopKey::enter;
    case kEscape:
      return TopKey::escape;
    case KEY_BACKSPACE:
    case '\b':
    case kDelete:
      return TopKey::backspace;
    default:
      break;
  }
  if (key >= ' ' && key <= '~') return static_cast<char>(key);
  return Redraw{};
}

}  // namespace

struct Terminal::Screen {
  SCREEN* handle = nullptr;

  explicit Screen(SCREEN* opened) : handle(opened) {}
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    endwin();
    delscreen(handle);
  }
};

Terminal::Terminal(std::unique_ptr<Screen> screen, netlink::UniqueFd signals)
    : screen_(std::move(screen)), signals_(std::move(signals)) {}

std::unique_ptr<Terminal> Terminal::open() {
  if (!can_show_screens()) return nullptr;
  const auto signals = own_signals();
  netlink::UniqueFd taken(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!taken) return nullptr;
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  keep_stop_from_curses();
  auto* const handle = newterm(nullptr, stdout, stdin);
  if (handle == nullptr) {
    give_signals_back();
    return nullptr;
  }
  constexpr int kEscapeWait = 50;  // ms to wait for further bytes after Escape
  set_escdelay(kEscapeWait);
  cbreak();
  noecho();
  curs_set(0);
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  return std::unique_ptr<Terminal>(
      new Terminal(std::make_unique<Screen>(handle), std::move(taken)));
}

Terminal::~Terminal() {
  screen_.reset();
  give_signals_back();
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
  refresh();
}

TerminalEvent Terminal::wait(std::chrono::milliseconds timeout) {
  // First the events that ncurses holds: a resize, keys that came together.
  if (const int key = getch(); key != ERR) return event_of(key);
  std::array<pollfd, 2> sources = {
      {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals_.get(), .events = POLLIN}}};
  const int ready = poll(sources.data(), sources.size(), static_cast<int>(timeout.count()));
  if (ready == 0) return TimePassed{};
  signalfd_siginfo signal{};
  if (read(signals_.get(), &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo != SIGTSTP) return Ended{static_cast<int>(signal.ssi_signo)};
    stop_here();
    return Redraw{};
  }
  if (const int key = getch(); key != ERR) return event_of(key);
  if (ready > 0 && sources[0].revents != 0) return Ended{};
  return Redraw{};
}

}  // namespace ipvsproxier::ctl
