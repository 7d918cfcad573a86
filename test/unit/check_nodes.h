#pragma once

// The folders of a node as data: /proc, /sys, /lib/modules, for the tests of the check.

#include <filesystem>
#include <string>
#include <vector>

#include "proxier/check/files.h"
#include "proxier/check/host_facts.h"
#include "proxier/check/needs.h"
#include "test/support/files.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

// A host whose kernel has all that is needed as modules, none of which is loaded.
class HostFolders {
 public:
  HostFolders() {
    put("proc/sys/kernel/osrelease", "6.1.0-test\n");
    put("proc/sys/kernel/modules_disabled", "0\n");
    put("proc/sys/kernel/modprobe", "/sbin/modprobe\n");
    put("proc/sys/net/ipv4/ip_forward", "0\n");
    put("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    put("proc/net/if_inet6", "");
    put("proc/modules", "");
    std::filesystem::create_directories(path("sys/module"));
    for (const auto& need : check::needs({})) add_module(need.module);
  }

  check::HostPaths paths() const {
    return {.proc = path("proc"),
            .sys = path("sys"),
            .modules = path("modules"),
            .boot = path("boot"),
            .etc = path("etc"),
            .usr_lib = path("usr"),
            .run = path("run"),
            .docker_swarm = path("swarm")};
  }
  std::filesystem::path path(const std::string& file) const { return folder_.path() / file; }
  void put(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(path(file).parent_path());
    write_file(path(file), text);
  }
  void remove(const std::string& file) const { std::filesystem::remove_all(path(file)); }
  // With its file, and a line of modules.dep.
  void add_module(const std::string& name, const std::vector<std::string>& on = {}) {
    std::string line = file_of(name) + ":";
    for (const auto& other : on) line += " " + file_of(other);
    dependencies_ += line + "\n";
    put("modules/6.1.0-test/modules.dep", dependencies_);
    put("modules/6.1.0-test/" + file_of(name), "");
  }
  static std::string file_of(const std::string& name) { return "kernel/" + name + ".ko.xz"; }

 private:
  TempDir folder_;
  std::string dependencies_;
};

}  // namespace ipvsproxier::test
