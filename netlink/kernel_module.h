#pragma once

// Kernel modules by name: whether one is present, and how to load one. Any thread; loading blocks
// until modprobe ends.

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Paths to look at and the program to run; the defaults are those of a host.
struct ModulePaths {
  std::filesystem::path loaded = "/sys/module";
  std::filesystem::path modules = "/lib/modules";  // RELEASE/modules.builtin is read
  std::filesystem::path symbols = "/proc/kallsyms";
  std::string modprobe = "modprobe";  // a path, or a name looked up in PATH
};

// Whether the module is loaded or built into the kernel. "ip_vs" and "ip-vs" are the same module.
// Nothing is loaded to find out. The folder of modules is missing on kernels without modules and in
// containers without a mount of it; then the names of the kernel's functions say what is built in.
// An error where neither can be read: then it may be there.
Result<bool> kernel_has_module(std::string_view name, const ModulePaths& paths = {});

// The modules of this project that are built into the kernel, by a function of each that the list
// of symbols has; nullopt if the list cannot be read. Each path is read once.
std::optional<std::set<std::string>> built_in_by_symbols(const std::filesystem::path& symbols);

// Loads a module and its dependencies unless it is known to be there. The error quotes modprobe's
// message.
Status load_module(std::string_view name, const ModulePaths& paths = {});

// Loads the absent modules with one modprobe process; otherwise the kernel would start one process
// for each missing module later. Failures are not reported here: they show where the module is
// needed.
void load_modules(std::span<const std::string_view> names, const ModulePaths& paths = {});

}  // namespace ipvsproxier::netlink
