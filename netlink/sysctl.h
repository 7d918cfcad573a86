#pragma once

// Kernel settings under /proc/sys, or under another root of the same form. Any thread, but each key
// is written by one thread only.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::netlink {

class Sysctl {
 public:
  enum class Access : std::uint8_t { write, dry_run };

  explicit Sysctl(std::filesystem::path root = "/proc/sys", Access access = Access::write)
      : root_(std::move(root)), access_(access) {}

  // The value of a key such as "net/ipv4/ip_forward", without surrounding blanks. `missing` if this
  // kernel has no such key: a module may have to be loaded first.
  Result<std::string> read(std::string_view key) const;

  // Whether the key is for reading alone, whoever asks: in a network namespace other than the first
  // the kernel has some keys so (nf_conntrack_standalone.c).
  bool is_fixed(std::string_view key) const;

  // Writes the value if it differs; true if it wrote, or would have written (Access::dry_run).
  // Never creates a key.
  Result<bool> ensure(std::string_view key, std::string_view value) const;

 private:
  std::filesystem::path root_;
  Access access_;
};

// Whether IPv6 is off on all links of this network namespace except `lo`. Where
// net/ipv6/conf/all/disable_ipv6 is 1, a link whose own key is 0 has IPv6 nevertheless: the kernel
// looks at the keys of links alone (net/ipv6/addrconf.c; tried with 6.1).
bool ipv6_is_disabled(const std::filesystem::path& root = "/proc/sys");

}  // namespace ipvsproxier::netlink
