#pragma once

// A network namespace of this host's own kernel with nf_tables, for unit tests: the scratch kernel
// has no tables of these families.

#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ipvsproxier::test {

// What nft prints; "failed" if it does not do it.
inline std::string nft(const std::string& commands) {
  const int file = ::memfd_create("commands", 0);  // which nft inherits
  const bool written =
      ::write(file, commands.data(), commands.size()) == static_cast<ssize_t>(commands.size());
  FILE* const pipe =
      ::popen(("nft -f /dev/fd/" + std::to_string(file) + " 2>/dev/null").c_str(), "r");
  std::string said;
  if (pipe != nullptr)
    for (int c = 0; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  const bool done = pipe != nullptr && ::pclose(pipe) == 0 && written;
  ::close(file);
  return done ? said : "failed";
}

// Ends the process with 77 if none can be made.
inline void enter_namespace() {
  static const bool usable = unshare(CLONE_NEWNET) == 0 &&
                             socket(AF_NETLINK, SOCK_RAW, 12) >= 0 &&  // NETLINK_NETFILTER
                             nft("add table ip probe; add table ip6 probe; delete table ip probe; "
                                 "delete table ip6 probe") != "failed";
  if (usable) return;
  std::puts("no namespace with nf_tables can be made here");
  std::_Exit(77);
}

}  // namespace ipvsproxier::test
