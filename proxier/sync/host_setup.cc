#include "proxier/sync/host_setup.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace ipvsproxier::sync {

namespace {

using plan::Sysctl;

void write_all(const std::vector<Sysctl>& rows, const netlink::Sysctl& sysctls,
               HostReport& report) {
  for (const auto& row : rows) {
    const auto before = sysctls.read(row.key);
    if (before && plan::is_right(row, *before)) continue;
    if (before && sysctls.is_fixed(row.key)) {
      report.notes.push_back(fmt::format(
          "sysctl {} stays {}, and not {}: it belongs to the first network namespace of "
          "the host",
          row.key, *before, row.value));
      continue;
    }
    auto wrote = sysctls.ensure(row.key, row.value);
    if (wrote) {
      if (*wrote && before)
        report.written.push_back(
            fmt::format("sysctl {} from {} to {}", row.key, *before, row.value));
      continue;
    }
    auto& list = row.severity == api::Severity::error ? report.failures : report.warnings;
    list.push_back(
        {fmt::format("set sysctl {} to {}", row.key, row.value), std::move(wrote.error())});
  }
}

// Long hash chains slow down every packet. As in kube-proxy, the table gets a quarter of the
// maximum, and a larger one stays.
void widen_conntrack_hash(std::uint32_t max, const netlink::Sysctl& parameters,
                          HostReport& report) {
  const Sysctl row{.key = "nf_conntrack/parameters/hashsize",
                   .value = std::to_string(max / 4),
                   .may_grow = true};
  const auto before = parameters.read(row.key);
  if (!before) {
    report.warnings.push_back({"read " + row.key, before.error()});
    return;
  }
  if (plan::is_right(row, *before)) return;
  auto wrote = parameters.ensure(row.key, row.value);
  if (!wrote)
    report.warnings.push_back({"write " + row.key, std::move(wrote.error())});
  else if (*wrote)
    report.written.push_back(
        fmt::format("module parameter {} from {} to {}", row.key, *before, row.value));
}

// Whether the folder of a bridge has two ports or more; other links have no such folder.
bool has_ports(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (int ports = 0; !error && it != std::filesystem::directory_iterator(); it.increment(error))
    if (++ports > 1) return true;
  return false;
}

// Whether a key of a bridge is 1.
bool calls(const std::filesystem::path& key) {
  std::string value;
  std::ifstream(key) >> value;
  return value == "1";
}

void set_timeouts(const netlink::IpvsTimeouts& wanted, netlink::IpvsTable& ipvs, HostPass pass,
                  HostReport& report) {
  if (wanted == netlink::IpvsTimeouts{}) return;
  auto current = ipvs.timeouts();
  if (!current) {
    report.failures.push_back({"read IPVS timeouts", std::move(current.error())});
    return;
  }
  const auto same = [](std::uint32_t want, std::uint32_t has) { return want == 0 || want == has; };
  if (same(wanted.tcp, current->tcp) && same(wanted.tcp_fin, current->tcp_fin) &&
      same(wanted.udp, current->udp))
    return;
  const auto status = pass == HostPass::dry_run ? netlink::Status{} : ipvs.set_timeouts(wanted);
  if (status)
    report.written.push_back(fmt::format("IPVS timeouts tcp {} s, tcpfin {} s, udp {} s",
                                         wanted.tcp, wanted.tcp_fin, wanted.udp));
  else
    report.failures.push_back({"set IPVS timeouts", status.error()});
}

}  // namespace

plan::NodeSettings read_node_settings(const HostPaths& paths,
                                      const std::vector<netlink::InterfaceAddress>& addresses) {
  const auto value = [&](const char* key) -> std::optional<std::string> {
    auto read = paths.sysctls.read(key);
    return read ? std::optional(*std::move(read)) : std::nullopt;
  };
  plan::NodeSettings settings{.local_ports = value("net/ipv4/ip_local_port_range"),
                              .reserved_ports = value("net/ipv4/ip_local_reserved_ports"),
                              .keepalive = value("net/ipv4/tcp_keepalive_time"),
                              .bridge_ipv4 = value("net/bridge/bridge-nf-call-iptables"),
                              .bridge_ipv6 = value("net/bridge/bridge-nf-call-ip6tables"),
                              .bridges = {}};
  for (const auto& one : addresses)
    if (const auto link = paths.links / one.link; has_ports(link / "brif"))
      settings.bridges[one.link] = {.ipv4 = calls(link / "bridge/nf_call_iptables"),
                                    .ipv6 = calls(link / "bridge/nf_call_ip6tables")};
  return settings;
}

HostReport prepare_host(const HostSetup& setup, netlink::IpvsTable& ipvs, HostPass pass) {
  const auto& settings = setup.settings;
  const auto& paths = setup.paths;
  const auto cpus = setup.cpus;
  HostReport report;
  const auto release = paths.sysctls.read("kernel/osrelease");
  if (!release) {
    report.failures.push_back({"read the kernel's version", release.error()});
    return report;
  }
  write_all(plan::conntrack_sysctls(settings.conntrack, cpus), paths.sysctls, report);
  const auto max = plan::conntrack_max(settings.conntrack, cpus);
  // The hash, too, belongs to the first network namespace.
  if (max != 0 && !paths.sysctls.is_fixed("net/netfilter/nf_conntrack_max"))
    widen_conntrack_hash(max, paths.module_parameters, report);
  auto rows = plan::ipvs_sysctls(settings.ipvs, *release);
  // Without IPVS these keys do not exist; the missing module is reported where it is used.
  const auto is_ipvs_key = [](const Sysctl& row) { return row.key.rfind("net/ipv4/vs/", 0) == 0; };
  if (!ipvs.timeouts()) std::erase_if(rows, is_ipvs_key);
  write_all(rows, paths.sysctls, report);
  set_timeouts(settings.timeouts, ipvs, pass, report);
  return report;
}

}  // namespace ipvsproxier::sync
