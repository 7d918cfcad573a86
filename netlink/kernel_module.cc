#include "netlink/kernel_module.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "netlink/unique_fd.h"

extern char** environ;

namespace ipvsproxier::netlink {

namespace {

constexpr std::size_t kKeptOutput = 1024;

// The kernel treats '-' and '_' alike in module names and shows '_'.
std::string canonical(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '-', '_');
  return result;
}

bool is_builtin(const std::string& name, const std::filesystem::path& modules) {
  utsname system{};
  if (uname(&system) != 0) return false;
  std::ifstream list(modules / system.release / "modules.builtin");
  std::string line;  // "kernel/net/netfilter/ipvs/ip_vs.ko"
  while (std::getline(list, line))
    if (canonical(std::filesystem::path(line).stem().string()) == name) return true;
  return false;
}

bool is_shown(std::string_view name, const ModulePaths& paths) {
  std::error_code ignored;
  return std::filesystem::exists(paths.loaded / canonical(name), ignored);
}

// All output from the pipe, on one line, until its writers have closed it.
std::string read_all(int fd) {
  std::string text;
  std::array<char, 512> buffer;
  while (true) {
    const auto size = ::read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    const auto room = std::min(kKeptOutput - text.size(), static_cast<std::size_t>(size));
    text.append(buffer.data(), room);
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

struct Exit {
  int status = 0;  // as waitpid() returns it
  std::string errors;
};

Result<Exit> run(const std::string& program, std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return make_error(Operation::generic, errno, fmt::format("run {}", program));
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), STDERR_FILENO);
  std::string name = program;
  std::vector<char*> words = {name.data()};
  for (auto& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  pid_t child = -1;
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return make_error(Operation::generic, error, fmt::format("run {}", program));

  writer.reset();
  Exit result{.errors = read_all(reader.get())};
  while (waitpid(child, &result.status, 0) < 0)
    if (errno != EINTR)
      return make_error(Operation::generic, errno, fmt::format("wait for {}", program));
  return result;
}

}  // namespace

bool module_present(std::string_view name, const ModulePaths& paths) {
  return is_shown(name, paths) || is_builtin(canonical(name), paths.modules);
}

Status load_module(std::string_view name, const ModulePaths& paths) {
  if (module_present(name, paths)) return {};
  const auto what = fmt::format("load kernel module {}", name);
  const auto exit = run(paths.modprobe, {"--", std::string(name)});
  if (!exit)
    return Error{exit.error().kind, exit.error().sys_errno,
                 fmt::format("{}: {}", what, exit.error().where)};
  if (WIFEXITED(exit->status) && WEXITSTATUS(exit->status) == 0) return {};
  const auto how = WIFEXITED(exit->status) ? fmt::format("status {}", WEXITSTATUS(exit->status))
                                           : fmt::format("signal {}", WTERMSIG(exit->status));
  return Error{ErrorKind::missing, 0,
               fmt::format("{}: {} ended with {}: {}", what, paths.modprobe, how, exit->errors)};
}

void load_modules(std::span<const std::string_view> names, const ModulePaths& paths) {
  std::vector<std::string> arguments = {"--all", "--quiet", "--"};
  const auto flags = arguments.size();
  for (const auto name : names)
    if (!is_shown(name, paths)) arguments.emplace_back(name);
  if (arguments.size() > flags) static_cast<void>(run(paths.modprobe, std::move(arguments)));
}

}  // namespace ipvsproxier::netlink
