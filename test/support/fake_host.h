#pragma once

// FakeHost: a /proc/sys and a /sys/module in a folder, as a fresh node has them.

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "proxier/sync/host_setup.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

class FakeHost {
 public:
  FakeHost() { reset(); }

  // As at the beginning: a namespace, or a module, that is new.
  void reset() {
    put("sys/kernel/osrelease", "6.1.0-18-amd64");
    for (const auto* key : {"conntrack", "expire_nodest_conn", "expire_quiescent_template"})
      put(std::string("sys/net/ipv4/vs/") + key, "0");
    put("sys/net/ipv4/ip_forward", "0");
    put("sys/net/netfilter/nf_conntrack_max", "65536");
    put("sys/net/netfilter/nf_conntrack_tcp_timeout_established", "432000");
    put("sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait", "60");
    put("module/nf_conntrack/parameters/hashsize", "16384");
  }

  void put(const std::string& file, const std::string& value) {
    const auto path = folder_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << value << "\n";
  }
  std::string get(const std::string& file) const {
    std::string value;
    std::ifstream(folder_.path() / file) >> value;
    return value;
  }
  // For root as well, who ignores the mode of other files: netlink::Sysctl::is_fixed().
  void forbid_writing(const std::string& file) {
    using std::filesystem::perms;
    std::filesystem::permissions(folder_.path() / file, perms::owner_read);
  }
  void remove(const std::string& file) { std::filesystem::remove_all(folder_.path() / file); }

  sync::HostSetup setup(sync::HostSettings settings = {}) const {
    const sync::HostPaths paths{netlink::Sysctl(folder_.path() / "sys"),
                                netlink::Sysctl(folder_.path() / "module"),
                                folder_.path() / "links"};
    return {std::move(settings), paths, 1};
  }

 private:
  TempDir folder_;
};

}  // namespace ipvsproxier::test
