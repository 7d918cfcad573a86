#pragma once

// What the folders of a host say about the kernel's modules, and whether one could be loaded.
// Nothing is loaded to find out.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxier/check/facts.h"
#include "proxier/check/files.h"

namespace ipvsproxier::check {

// modules.dep, modules.builtin (where it cannot be read, the functions that the kernel has),
// modprobe.d and what is loaded. Names have '_' for '-'.
struct ModuleIndex {
  std::filesystem::path folder;  // /lib/modules/RELEASE
  bool visible = false;          // there is such a folder
  std::set<std::string> loaded;
  std::set<std::string> built_in;
  // The files of a module and of all that it depends on, the module's own first; relative to
  // `folder` unless absolute (modules.dep(5)).
  std::map<std::string, std::vector<std::string>> files;
  // Files of modprobe.d(5): an `install` line replaces loading by a command; `blacklist` makes
  // modprobe ignore a module's aliases, which is how the kernel asks for one.
  std::map<std::string, std::string> install_lines;
  std::map<std::string, std::string> blacklists;
};

ModuleIndex read_module_index(const HostPaths& paths, const std::string& release);

// Who may load modules here.
struct LoadingRules {
  bool forbidden = false;  // kernel/modules_disabled
  bool by_us = false;      // this process may, and has a modprobe
  bool by_kernel = true;   // kernel/modprobe names a program for the kernel to run
};

struct ModuleQuestion {
  std::string name;
  // Whether the kernel loads it by itself when it is asked for what the module does. It does not
  // for ip_tables and ip6_tables (net/ipv4/netfilter/ip_tables.c: no alias is requested).
  bool asked_for_by_kernel = true;
};

// Pure but for looking whether files exist.
ModuleFact module_fact(const ModuleQuestion& question, const ModuleIndex& index,
                       const KernelConfig& config, const LoadingRules& rules);

}  // namespace ipvsproxier::check
