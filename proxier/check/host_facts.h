#pragma once

// Reads the facts of this host that stand in files (/proc, /sys, /lib/modules, /etc). Changes
// nothing and makes the kernel load nothing: no netlink socket is opened, as one for sock_diag, for
// generic netlink or for netfilter makes the kernel ask for modules (net/core/sock_diag.c,
// net/netlink/genetlink.c, af_netlink.c: request_module). Blocks; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "proxier/check/facts.h"
#include "proxier/check/files.h"

namespace ipvsproxier::check {

// A port that the daemon listens on.
struct WantedPort {
  std::string purpose;  // "health server"
  netlink::IpAddress address;
  std::uint16_t port = 0;
};

struct Questions {
  Wanted wanted;
  std::vector<plan::Sysctl> sysctls;
  std::vector<WantedPort> ports;
};

// All facts but the packet filter, the virtual services, whether a daemon runs, and the API
// server's answers, which need more than files.
NodeFacts read_host_facts(const Questions& questions, const HostPaths& paths = {});

// The text of /proc/sys/kernel/osrelease; "" if it cannot be read.
std::string kernel_release(const HostPaths& paths = {});

}  // namespace ipvsproxier::check
