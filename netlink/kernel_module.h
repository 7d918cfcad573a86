#pragma once

// Kernel modules by name: whether one is present, and how to load one. Any thread; loading blocks
// until modprobe ends.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::netlink {

// Paths to look at and the program to run; the defaults are those of a host.
struct ModulePaths {
  std::filesystem::path loaded = "/sys/module";
  std::filesystem::path modules = "/lib/modules";  // RELEASE/modules.builtin is read
  std::string modprobe = "modprobe";               // a path, or a name looked up in PATH
};

// Whether the module is loaded or built into the kernel. "ip_vs" and "ip-vs" are the same module.
bool module_present(std::string_view name, const ModulePaths& paths = {});

// Loads a module and its dependencies unless it is present. The error quotes modprobe's message.
Status load_module(std::string_view name, const ModulePaths& paths = {});

// Loads the absent modules with one modprobe process; otherwise the kernel would start one process
// for each missing module later. Failures are not reported here: they show where the module is
// needed.
void load_modules(std::span<const std::string_view> names, const ModulePaths& paths = {});

}  // namespace ipvsproxier::netlink
