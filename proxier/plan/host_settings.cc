#include "proxier/plan/host_settings.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ipvsproxier::plan {

namespace {

// "6.1.0-18-amd64" -> {6, 1}; an unreadable number is 0.
std::pair<unsigned, unsigned> kernel_version(const std::string& release) {
  unsigned major = 0;
  unsigned minor = 0;
  const char* end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, major);
  if (first.ptr != end && *first.ptr == '.') std::from_chars(first.ptr + 1, end, minor);
  return {major, minor};
}

std::uint64_t number_in(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

bool is_right(const Sysctl& row, const std::string& value) {
  return value == row.value || (row.may_grow && number_in(value) > number_in(row.value));
}

std::vector<Sysctl> ipvs_sysctls(const IpvsHostSettings& settings,
                                 const std::string& kernel_release) {
  std::vector<Sysctl> rows = {{"net/ipv4/vs/conntrack", "1"}};
  // From 5.9 on the kernel handles a reused client port well; before 4.1 the key does not exist.
  const auto version = kernel_version(kernel_release);
  if (version >= std::pair{4U, 1U} && version < std::pair{5U, 9U})
    rows.push_back({"net/ipv4/vs/conn_reuse_mode", "0"});
  rows.push_back({"net/ipv4/vs/expire_nodest_conn", "1"});
  rows.push_back({"net/ipv4/vs/expire_quiescent_template", "1"});
  rows.push_back({"net/ipv4/ip_forward", "1"});
  if (settings.ipv6_forwarding) rows.push_back({"net/ipv6/conf/all/forwarding", "1"});
  // The key exists since 5.17.
  if (!settings.estimators && version < std::pair{6U, 2U})
    rows.push_back({"net/ipv4/vs/run_estimation", "0", api::Severity::warning});
  if (settings.strict_arp) {
    rows.push_back({"net/ipv4/conf/all/arp_ignore", "1"});
    rows.push_back({"net/ipv4/conf/all/arp_announce", "2"});
  }
  return rows;
}

std::uint32_t conntrack_max(const ConntrackSettings& settings, unsigned cpus) {
  constexpr std::uint64_t kLargest = 1048576;
  if (settings.max_per_core == 0) return 0;
  const std::uint64_t scaled = std::uint64_t{settings.max_per_core} * cpus;
  if (scaled > kLargest) return kLargest;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(scaled, settings.min));
}

std::vector<Sysctl> conntrack_sysctls(const ConntrackSettings& settings, unsigned cpus) {
  std::vector<Sysctl> rows;
  const auto row = [&rows](const char* key, std::uint32_t value, bool may_grow = false) {
    if (value > 0)
      rows.push_back({std::string("net/netfilter/") + key, std::to_string(value),
                      api::Severity::warning, may_grow});
  };
  row("nf_conntrack_max", conntrack_max(settings, cpus), true);
  row("nf_conntrack_tcp_timeout_established", settings.tcp_established_timeout);
  row("nf_conntrack_tcp_timeout_close_wait", settings.tcp_close_wait_timeout);
  row("nf_conntrack_tcp_be_liberal", settings.tcp_be_liberal ? 1 : 0);
  row("nf_conntrack_udp_timeout", settings.udp_timeout);
  row("nf_conntrack_udp_timeout_stream", settings.udp_stream_timeout);
  return rows;
}

}  // namespace ipvsproxier::plan
