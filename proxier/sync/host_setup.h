#pragma once

// What this node needs besides the proxied objects: sysctls and IPVS timeouts. Sync thread only.

#include <vector>

#include "netlink/ipvs_table.h"
#include "netlink/sysctl.h"
#include "proxier/plan/host_settings.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct HostSettings {
  bool strict_arp = false;
  plan::ConntrackSettings conntrack;
  netlink::IpvsTimeouts timeouts;  // all 0: left alone
};

// Where the settings are: /proc/sys, and /sys/module for conntrack's hash size.
struct HostPaths {
  netlink::Sysctl sysctls{"/proc/sys"};
  netlink::Sysctl module_parameters{"/sys/module"};
};

struct HostReport {
  std::size_t written = 0;        // sysctls and timeouts that differed
  std::vector<Failure> failures;  // needed and not done
  std::vector<Failure> warnings;  // conntrack's: belong to the first network namespace
};

HostReport prepare_host(const HostSettings& settings, const HostPaths& paths, unsigned cpus,
                        netlink::IpvsTable& ipvs);

}  // namespace ipvsproxier::sync
