#pragma once

// Which sysctls this node needs, as rows. Pure; any thread.

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
  bool ipv6_forwarding = false;  // have IPv6 packets forwarded, as IPv4's always are
  // Rates of virtual and real servers are counted. Without, a kernel older than 6.2 does not walk
  // all of them every 2 s in a timer; newer ones have threads for that.
  bool estimators = true;
};

struct Sysctl {
  std::string key;  // "net/ipv4/ip_forward", below /proc/sys
  std::string value;
  // What it means that it cannot be written: conntrack's belong to the first network namespace and
  // traffic flows without them; the others are needed.
  api::Severity severity = api::Severity::error;
  // A number that somebody makes larger while the process runs stays so.
  bool may_grow = false;

  friend auto operator<=>(const Sysctl&, const Sysctl&) = default;
};

// `kernel_release` is that of /proc/sys/kernel/osrelease ("6.1.0-18-amd64").
std::vector<Sysctl> ipvs_sysctls(const IpvsHostSettings& settings,
                                 const std::string& kernel_release);

// nf_conntrack_max for this many CPUs; 0: leave alone.
std::uint32_t conntrack_max(const ConntrackSettings& settings, unsigned cpus);

std::vector<Sysctl> conntrack_sysctls(const ConntrackSettings& settings, unsigned cpus);

}  // namespace ipvsproxier::plan
