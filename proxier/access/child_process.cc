#include "proxier/access/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "proxier/api/visible_text.h"

namespace ipvsproxier::access {

namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::Result;
using netlink::Status;
using netlink::UniqueFd;
using Clock = loop::MainLoop::Clock;

constexpr std::size_t kErrorTail = 4096;
constexpr std::size_t kShownErrors = 300;
// After the end of its output a program exits within moments. Kernels before 5.3 have no descriptor
// to wait for that (pidfd_open), so it is polled.
constexpr std::chrono::milliseconds kExitPoll{5};
// A killed process may hang in the kernel; after this time it is left behind.
constexpr std::chrono::seconds kKillPatience{5};

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  Pipe pipe{.reader = UniqueFd(ends[0]), .writer = UniqueFd(ends[1])};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return std::nullopt;
  return pipe;
}

class SpawnPlan {
 public:
  SpawnPlan(int output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    // The loop blocks signals and ignores SIGPIPE; a program expects neither.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// In the form that exec() needs; `texts` must outlive the result.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Of a repeated name the last value counts.
std::vector<std::string> without_doubles(const std::vector<std::string>& environment) {
  std::map<std::string, std::string> by_name;
  for (const auto& entry : environment) by_name[entry.substr(0, entry.find('='))] = entry;
  std::vector<std::string> entries;
  for (auto& [name, entry] : by_name) entries.push_back(std::move(entry));
  return entries;
}

// The end of the program's errors as one line for a log.
std::string shown(const std::string& errors) {
  std::string line;
  for (const char c : errors) {
    const auto byte = static_cast<unsigned char>(c);
    const bool blank = byte <= 0x20 || byte == 0x7f;
    if (!blank)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  const auto end = api::tail_of(line, kShownErrors);
  return end.size() < line.size() ? fmt::format("...{}", end) : line;
}

enum class ReadOutcome : std::uint8_t { some, none, end };

ReadOutcome read_into(int fd, std::string& text) {
  std::array<char, 65536> piece{};
  const auto size = ::read(fd, piece.data(), piece.size());
  if (size > 0) text.append(piece.data(), static_cast<std::size_t>(size));
  if (size > 0) return ReadOutcome::some;
  return size < 0 && (errno == EAGAIN || errno == EINTR) ? ReadOutcome::none : ReadOutcome::end;
}

}  // namespace

ChildProcess::ChildProcess(loop::MainLoop& loop, std::string name, ChildCommand command, Then then)
    : loop_(loop),
      name_(std::move(name)),
      command_(std::move(command)),
      then_(std::move(then)),
      deadline_(Clock::now() + command_.time_limit) {}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(loop::MainLoop& loop, std::string name,
                                                          ChildCommand command, Then then) {
  std::unique_ptr<ChildProcess> child(
      new ChildProcess(loop, std::move(name), std::move(command), std::move(then)));
  if (auto started = child->spawn(); !started) return started.error();
  child->follow();
  return child;
}

Status ChildProcess::spawn() {
  const auto error = [this](int sys_errno) {
    return netlink::make_error(netlink::Operation::generic, sys_errno,
                               fmt::format("run {}", command_.program));
  };
  auto output = make_pipe();
  if (!output) return error(errno);
  auto errors = make_pipe();
  if (!errors) return error(errno);
  const SpawnPlan plan(output->writer.get(), errors->writer.get());
  std::vector<std::string> arguments = {command_.program};
  arguments.insert(arguments.end(), command_.arguments.begin(), command_.arguments.end());
  auto environment = without_doubles(command_.environment);
  const int outcome =
      ::posix_spawnp(&pid_, command_.program.c_str(), plan.actions(), plan.attributes(),
                     pointers_to(arguments).data(), pointers_to(environment).data());
  if (outcome != 0) {
    pid_ = -1;
    return error(outcome);
  }
  output_end_ = std::move(output->reader);
  error_end_ = std::move(errors->reader);
  return {};
}

void ChildProcess::follow() {
  loop_.watch(output_end_.get(), [this] { read_output(); });
  loop_.watch(error_end_.get(), [this] { read_errors(); });
  loop_.at(name_, deadline_, [this] {
    kill(failure(ErrorKind::timeout,
                 fmt::format("did not end within {} ms", command_.time_limit.count())));
  });
}

ChildProcess::~ChildProcess() {
  close(output_end_);
  close(error_end_);
  loop_.cancel(name_);
  if (pid_ < 0) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, WNOHANG);
}

void ChildProcess::close(UniqueFd& end) {
  if (!end) return;
  loop_.unwatch(end.get());
  end.reset();
}

void ChildProcess::read_output() {
  switch (read_into(output_end_.get(), read_.output)) {
    case ReadOutcome::none:
      return;
    case ReadOutcome::some:
      if (read_.output.size() > command_.most_output)
        kill(failure(ErrorKind::malformed,
                     fmt::format("printed more than {} bytes", command_.most_output)));
      return;
    case ReadOutcome::end:
      close(output_end_);
      if (!error_end_) await_exit();
  }
}

void ChildProcess::read_errors() {
  const auto outcome = read_into(error_end_.get(), read_.errors);
  if (read_.errors.size() > kErrorTail) read_.errors.erase(0, read_.errors.size() - kErrorTail);
  if (outcome != ReadOutcome::end) return;
  close(error_end_);
  if (!output_end_) await_exit();
}

void ChildProcess::kill(Error why) {
  close(output_end_);
  close(error_end_);
  ::kill(-pid_, SIGKILL);
  killed_ = std::make_unique<Error>(std::move(why));
  deadline_ = Clock::now() + kKillPatience;
  await_exit();
}

void ChildProcess::await_exit() {
  int status = 0;
  const auto waited = ::waitpid(pid_, &status, WNOHANG);
  const bool lost = waited < 0 && errno != EINTR;  // ECHILD: SIGCHLD is ignored
  const auto now = Clock::now();
  if (waited == pid_) {
    pid_ = -1;
    end(killed_ ? Result<ChildOutput>(std::move(*killed_)) : judge(status));
  } else if (lost) {
    pid_ = -1;
    end(killed_ ? std::move(*killed_) : failure(ErrorKind::io, "was waited for by somebody else"));
  } else if (now < deadline_) {
    loop_.at(name_, now + kExitPoll, [this] { await_exit(); });
  } else if (killed_) {
    end(std::move(*killed_));
  } else {
    kill(failure(ErrorKind::timeout,
                 fmt::format("did not end within {} ms", command_.time_limit.count())));
  }
}

Result<ChildOutput> ChildProcess::judge(int status) {
  if (WIFSIGNALED(status))
    return failure(ErrorKind::io, fmt::format("was ended by signal {}", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0)
    return failure(ErrorKind::io, fmt::format("ended with status {}", WEXITSTATUS(status)));
  return std::move(read_);
}

Error ChildProcess::failure(ErrorKind kind, const std::string& how) const {
  const auto said = shown(read_.errors);
  return Error{kind, 0,
               said.empty() ? fmt::format("{} {}", command_.program, how)
                            : fmt::format("{} {}; it said: {}", command_.program, how, said)};
}

// `then` may destroy this.
void ChildProcess::end(Result<ChildOutput> outcome) {
  loop_.cancel(name_);
  const auto then = std::exchange(then_, nullptr);
  then(std::move(outcome));
}

}  // namespace ipvsproxier::access
