#pragma once

// The sysctls and IPVS timeouts that this node needs. Sync thread only.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "netlink/ipvs/ipvs_table.h"
#include "netlink/sysctl.h"
#include "proxier/plan/host_settings.h"
#include "proxier/plan/pitfalls.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

struct HostSettings {
  plan::IpvsHostSettings ipvs;
  plan::ConntrackSettings conntrack;
  netlink::IpvsTimeouts timeouts;  // all 0: left alone
};

// Roots of the settings: /proc/sys, and /sys/module for conntrack's hash size; and the links.
struct HostPaths {
  netlink::Sysctl sysctls{"/proc/sys"};
  netlink::Sysctl module_parameters{"/sys/module"};
  std::filesystem::path links = "/sys/class/net";
};

// The parameters of prepare_host().
struct HostSetup {
  HostSettings settings;
  HostPaths paths;
  unsigned cpus = 1;
  bool reserve_node_ports = false;  // HostKeeper adds them to net/ipv4/ip_local_reserved_ports
};

struct HostReport {
  // Sysctls and timeouts that were changed, or would have been: "sysctl X from A to B".
  std::vector<std::string> written;
  std::vector<Failure> failures;  // needed, and not set
  // Failures of conntrack keys, which belong to the first network namespace.
  std::vector<Failure> warnings;
  std::vector<std::string> notes;  // what this kernel is too old for
};

// Sets all values that are not right. A limit of conntrack that is larger stays, as with kube-proxy
// from 1.36 and 1.37 on, whose releases of September 2026 stopped lowering it. A dry run writes no
// timeouts, and its paths must not write either (netlink::Sysctl::Access::dry_run).
enum class HostPass : std::uint8_t { write, dry_run };

// The settings that the daemon leaves alone, and which of the links with these addresses are
// bridges.
plan::NodeSettings read_node_settings(const HostPaths& paths,
                                      const std::vector<netlink::InterfaceAddress>& addresses);

HostReport prepare_host(const HostSetup& setup, netlink::IpvsTable& ipvs,
                        HostPass pass = HostPass::write);

}  // namespace ipvsproxier::sync
