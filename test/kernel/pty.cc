#include "test/kernel/pty.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace ipvsproxier::test {

PtyCommand::PtyCommand(const std::string& command) {
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  before_ = {.c_iflag = ICRNL | IXON,
             .c_oflag = OPOST | ONLCR,
             .c_cflag = CS8 | CREAD | B38400,
             .c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | IEXTEN};
  before_.c_cc[VINTR] = 3;
  before_.c_cc[VSUSP] = 26;
  before_.c_cc[VMIN] = 1;
  int terminal = -1;
  pid_ = forkpty(&terminal, nullptr, &before_, &size);
  if (pid_ < 0) throw std::runtime_error("forkpty");
  if (pid_ == 0) {
    setenv("TERM", "xterm", 1);
    execlp("bash", "bash", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  terminal_ = netlink::UniqueFd(terminal);
}

PtyCommand::~PtyCommand() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

termios PtyCommand::settings() const {
  termios now{};
  // Of a pair both ends have the same.
  if (tcgetattr(terminal_.get(), &now) != 0) throw std::runtime_error("tcgetattr");
  return now;
}

bool PtyCommand::as_it_was() const {
  const auto now = settings();
  return now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag &&
         now.c_lflag == before_.c_lflag && std::ranges::equal(now.c_cc, before_.c_cc);
}

void PtyCommand::type(const std::string& keys) const {
  if (::write(terminal_.get(), keys.data(), keys.size()) != static_cast<ssize_t>(keys.size()))
    throw std::runtime_error("write to the terminal");
}

void PtyCommand::resize(unsigned short width, unsigned short height) const {
  const winsize size{.ws_row = height, .ws_col = width, .ws_xpixel = 0, .ws_ypixel = 0};
  if (ioctl(terminal_.get(), TIOCSWINSZ, &size) != 0) throw std::runtime_error("TIOCSWINSZ");
}

bool PtyCommand::shows(const std::string& text, int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    if (const auto found = output_.find(text, seen_); found != std::string::npos) {
      seen_ = found + text.size();
      return true;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !read_more(static_cast<int>(left.count()))) {
      tell_missing(text);
      return false;
    }
  }
}

// What came instead, as a string of C++.
void PtyCommand::tell_missing(const std::string& text) const {
  std::fprintf(stderr, "the terminal did not show \"%s\", but:\n", text.c_str());
  for (const auto character : output_.substr(seen_)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= ' ' && byte <= '~')
      std::fputc(byte, stderr);
    else
      std::fprintf(stderr, "\\x%02x", byte);
  }
  std::fputc('\n', stderr);
}

int PtyCommand::wait_for_end() {
  while (read_more(kPatience)) {
  }
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) throw std::runtime_error("waitpid");
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// False once nobody writes any more (EIO), or after the time.
bool PtyCommand::read_more(int timeout_ms) {
  pollfd source{.fd = terminal_.get(), .events = POLLIN, .revents = 0};
  if (poll(&source, 1, timeout_ms) <= 0) return false;
  std::array<char, 4096> buffer{};
  const auto size = ::read(terminal_.get(), buffer.data(), buffer.size());
  if (size <= 0) return false;
  output_.append(buffer.data(), static_cast<std::size_t>(size));
  return true;
}

}  // namespace ipvsproxier::test
