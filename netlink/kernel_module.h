#pragma once

// Kernel modules by name: whether the kernel has one, and loading one. Any thread; loading blocks
// until modprobe ends.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Where to look and what to run; the defaults are a host's.
struct ModulePaths {
  std::filesystem::path loaded = "/sys/module";
  std::filesystem::path modules = "/lib/modules";  // RELEASE/modules.builtin below it
  std::string modprobe = "modprobe";               // a path, or a name looked up in PATH
};

// Loaded, or built into the kernel. "ip_vs" and "ip-vs" are the same module.
bool module_present(std::string_view name, const ModulePaths& paths = {});

// Loads a module with what it needs, unless it is present. The error has modprobe's own words.
Status load_module(std::string_view name, const ModulePaths& paths = {});

// Loads those that are not there, by one process for all: the kernel starts one for each that it
// misses later. What cannot be loaded shows where it is needed.
void load_modules(std::span<const std::string_view> names, const ModulePaths& paths = {});

}  // namespace ipvsproxier::netlink
