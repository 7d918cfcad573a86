#include "test/kernel/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "test/kernel/packet_filter.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::UniqueFd;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Appends what the program writes to the file.
pid_t spawn(const Netns& netns, const std::vector<std::string>& flags,
            const std::filesystem::path& log) {
  const std::string program = ipvs_proxier_path();
  std::vector<std::string> words = {program};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = -1;
  const int error = netns.inside([&] {
    return ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  });
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(error, "start " + program);
  return pid;
}

UniqueFd process_fd(pid_t pid) {
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) fail(errno, "watch a process");
  return fd;
}

bool ended(const UniqueFd& process, int timeout_ms) {
  pollfd entry{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) > 0;
}

int take_status(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) < 0) fail(errno, "wait for a process");
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<std::string> with_packet_filter(std::vector<std::string> flags) {
  const auto asked = asked_packet_filter();
  const bool chosen = std::ranges::any_of(
      flags, [](const auto& flag) { return flag.starts_with("--packet-filter"); });
  if (asked && !chosen) flags.push_back("--packet-filter=" + *asked);
  return flags;
}

std::string content_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

RunResult run_once(const Netns& netns, const Manifests& manifests,
                   const std::vector<std::string>& more) {
  auto flags = manifests.flags();
  flags.push_back("--once");
  flags.insert(flags.end(), more.begin(), more.end());
  Daemon daemon(netns, flags);
  daemon.start();
  const int status = daemon.wait_for_end();
  return {.status = status, .log = daemon.log()};
}

Daemon::Daemon(const Netns& netns, std::vector<std::string> flags)
    : netns_(netns), flags_(with_packet_filter(std::move(flags))) {}

Daemon::~Daemon() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Daemon::start() {
  if (pid_ >= 0) throw std::runtime_error("the daemon was started twice");
  pid_ = spawn(netns_, flags_, dir_.path() / "log");
  process_ = process_fd(pid_);
}

bool Daemon::runs() {
  if (pid_ >= 0 && ended(process_, 0)) {
    status_ = take_status(pid_);
    pid_ = -1;
  }
  return pid_ >= 0;
}

void Daemon::signal(int number) {
  if (pid_ < 0 || ::kill(pid_, number) < 0) {
    throw std::runtime_error("no daemon to signal:\n" + log());
  }
}

int Daemon::wait_for_end(int timeout_ms) {
  if (pid_ >= 0 && !ended(process_, timeout_ms)) {
    kill();
    throw std::runtime_error("the daemon did not end in time:\n" + log());
  }
  runs();
  return status_;
}

int Daemon::terminate() {
  signal(SIGTERM);
  return wait_for_end();
}

void Daemon::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  status_ = take_status(pid_);
  pid_ = -1;
}

std::string Daemon::log() const {
  return content_of(dir_.path() / "log");
}

void Daemon::mark() {
  mark_ = log().size();
}

bool Daemon::logs(const std::string& text, int timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    // Before the log is read: what a process wrote before its end is in it.
    const bool last_look = !runs() || std::chrono::steady_clock::now() >= deadline;
    if (log().find(text, mark_) != std::string::npos) return true;
    if (last_look) return false;
    ::poll(nullptr, 0, 5);
  }
}

Memory Daemon::memory() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  Memory memory;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t kilobytes = 0;
    words >> name >> kilobytes;
    if (name == "VmRSS:") memory.now = kilobytes * 1024;
    if (name == "VmHWM:") memory.peak = kilobytes * 1024;
  }
  if (memory.peak == 0) throw std::runtime_error("no memory of the daemon");
  return memory;
}

}  // namespace ipvsproxier::test
