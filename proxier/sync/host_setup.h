#pragma once

// What this node needs besides the proxied objects: sysctls and IPVS timeouts. Sync thread only.

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/ipvs_table.h"
#include "netlink/sysctl.h"
#include "proxier/plan/host_settings.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct HostSettings {
  plan::IpvsHostSettings ipvs;
  plan::ConntrackSettings conntrack;
  netlink::IpvsTimeouts timeouts;  // all 0: left alone
};

// Where the settings are: /proc/sys, and /sys/module for conntrack's hash size.
struct HostPaths {
  netlink::Sysctl sysctls{"/proc/sys"};
  netlink::Sysctl module_parameters{"/sys/module"};
};

// What prepare_host() needs to know of this machine.
struct HostSetup {
  HostSettings settings;
  HostPaths paths;
  unsigned cpus = 1;
};

struct HostReport {
  std::vector<std::string> written;  // sysctls and timeouts that differed: "KEY to VALUE"
  std::vector<Failure> failures;     // needed and not done
  std::vector<Failure> warnings;     // conntrack's: belong to the first network namespace
};

// When a process begins it is as the settings say, as with kube-proxy; later a limit that somebody
// raised beyond them stays.
enum class HostPass : std::uint8_t { begin, keep };

HostReport prepare_host(const HostSetup& setup, netlink::IpvsTable& ipvs,
                        HostPass pass = HostPass::begin);

}  // namespace ipvsproxier::sync
