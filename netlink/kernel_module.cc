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
#include <map>
#include <mutex>
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

// Whether modules.builtin has the module; nullopt if the file cannot be read.
std::optional<bool> is_in_builtin_file(const std::string& name,
                                       const std::filesystem::path& modules) {
  utsname system{};
  if (uname(&system) != 0) return std::nullopt;
  std::ifstream list(modules / system.release / "modules.builtin");
  if (!list) return std::nullopt;
  std::string line;  // "kernel/net/netfilter/ipvs/ip_vs.ko"
  while (std::getline(list, line))
    if (canonical(std::filesystem::path(line).stem().string()) == name) return true;
  return false;
}

// A function that each of these modules has in all kernels since 5.10. A scheduler of IPVS,
// ip_vs_NAME, has ip_vs_NAME_schedule.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kFunctions{{
    {"br_nf_pre_routing", "br_netfilter"},
    {"dummy_xmit", "dummy"},
    {"ip6t_do_table", "ip6_tables"},
    {"ip_set_type_register", "ip_set"},
    {"ipt_do_table", "ip_tables"},
    {"nf_conntrack_in", "nf_conntrack"},
    {"nft_register_expr", "nf_tables"},
    {"register_ip_vs_scheduler", "ip_vs"},
}};

// The module that has the function; "": no module of the table, and no scheduler.
std::string module_of_function(std::string_view function) {
  constexpr std::string_view kScheduler = "_schedule";
  for (const auto& [known, module] : kFunctions)
    if (known == function) return std::string(module);
  if (function.starts_with("ip_vs_") && function.ends_with(kScheduler))
    return std::string(function.substr(0, function.size() - kScheduler.size()));
  return {};
}

bool has_known_function(const std::string& module) {
  return module.starts_with("ip_vs_") ||
         std::ranges::any_of(kFunctions, [&](const auto& known) { return known.second == module; });
}

// "ffffffff81a0 t nft_register_expr"; a module's symbol has "\t[nf_tables]" after it.
std::optional<std::set<std::string>> read_symbols(const std::filesystem::path& symbols) {
  std::ifstream list(symbols);
  std::set<std::string> found;
  std::string line;
  bool read = false;
  while (std::getline(list, line)) {
    read = true;
    const auto name = line.rfind(' ');
    if (name == std::string::npos || line.find('[') != std::string::npos) continue;
    // A compiler may have added a suffix: "dummy_xmit.isra.0".
    const auto function = std::string_view(line).substr(name + 1);
    if (auto module = module_of_function(function.substr(0, function.find('.'))); !module.empty())
      found.insert(std::move(module));
  }
  return read ? std::optional(std::move(found)) : std::nullopt;
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

std::optional<std::set<std::string>> built_in_by_symbols(const std::filesystem::path& symbols) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::optional<std::set<std::string>>> known;
  const std::scoped_lock lock(mutex);
  const auto [it, is_new] = known.try_emplace(symbols);
  if (is_new) it->second = read_symbols(symbols);
  return it->second;
}

Result<bool> kernel_has_module(std::string_view name, const ModulePaths& paths) {
  if (is_shown(name, paths)) return true;
  const auto module = canonical(name);
  std::error_code ignored;
  auto built_in = is_in_builtin_file(module, paths.modules);
  if (!built_in && has_known_function(module))
    if (const auto modules = built_in_by_symbols(paths.symbols))
      built_in = modules->contains(module);
  if (built_in && (*built_in || std::filesystem::exists(paths.loaded, ignored))) return *built_in;
  return Error{
      ErrorKind::io, 0,
      fmt::format("whether the kernel has {} cannot be told here; {} and {} of the host "
                  "would say it, and so would {}",
                  module, paths.loaded.string(), paths.modules.string(), paths.symbols.string())};
}

Status load_module(std::string_view name, const ModulePaths& paths) {
  if (kernel_has_module(name, paths).value_or(false)) return {};
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
