#pragma once

// The sysctls that this node needs, as rows. Pure; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "proxier/api/problem.h"

namespace ipvsproxier::plan {

struct ConntrackSettings {
  std::uint32_t max_per_core = 32768;  // 0: leave nf_conntrack_max alone
  std::uint32_t min = 131072;
  // Seconds; 0: leave alone.
  std::uint32_t tcp_established_timeout = 86400;
  std::uint32_t tcp_close_wait_timeout = 3600;
  std::uint32_t udp_timeout = 0;
  std::uint32_t udp_stream_timeout = 0;
  bool tcp_be_liberal = false;
};

struct IpvsHostSettings {
  bool strict_arp = false;
  bool ipv6_forwarding = false;  // forward IPv6 packets, as is always done for IPv4
  // Estimate the rates of virtual and real servers. If off, a kernel before 6.2 does not walk all
  // of them in a timer every 2 s; newer kernels use threads for that.
  bool estimators = true;
};

struct Sysctl {
  std::string key;  // "net/ipv4/ip_forward", below /proc/sys
  std::string value;
  // Severity of a failed write. Conntrack keys belong to the first network namespace, and traffic
  // flows without them; the other keys are needed.
  api::Severity severity = api::Severity::error;
  // A limit: a larger number that others wrote is kept.
  bool may_grow = false;

  friend auto operator<=>(const Sysctl&, const Sysctl&) = default;
};

// Whether the kernel's value is as the row asks.
bool is_right(const Sysctl& row, const std::string& value);

// `kernel_release` is the text of /proc/sys/kernel/osrelease ("6.1.0-18-amd64").
std::vector<Sysctl> ipvs_sysctls(const IpvsHostSettings& settings,
                                 const std::string& kernel_release);

// nf_conntrack_max for this number of CPUs; 0: leave alone.
std::uint32_t conntrack_max(const ConntrackSettings& settings, unsigned cpus);

std::vector<Sysctl> conntrack_sysctls(const ConntrackSettings& settings, unsigned cpus);

}  // namespace ipvsproxier::plan
