#include "proxier/check/host_facts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <system_error>

#include "netlink/sysctl.h"
#include "netlink/text.h"
#include "proxier/check/kernel_config.h"
#include "proxier/check/kernel_modules.h"
#include "proxier/check/listeners.h"
#include "proxier/check/needs.h"

namespace ipvsproxier::check {

namespace {

constexpr std::size_t kMostTable = std::size_t{4} << 20U;  // of /proc/net/tcp: listeners come first
constexpr std::size_t kMostSymbols = std::size_t{64}
                                     << 20U;  // of /proc/kallsyms: modules come last
constexpr std::size_t kMostProcesses = 100'000;
constexpr std::size_t kMostWriters = 16;
constexpr std::size_t kMostLinks = 10'000;

constexpr auto kWriters = std::to_array<std::string_view>(
    {"kube-proxy", "kube-router", "keepalived", "kube-vip", "dockerd"});

std::optional<std::string> value_of(const std::filesystem::path& file) {
  const auto text = read_some(file, 4096);
  if (!text) return std::nullopt;
  return std::string(netlink::trimmed(*text));
}

// Calls `each` for the entries of a folder, of which there may be many.
template <typename Each>
void for_each_entry(const std::filesystem::path& folder, std::size_t most, Each each) {
  std::error_code error;
  std::filesystem::directory_iterator it(folder, error);
  for (std::size_t i = 0; !error && it != std::filesystem::end(it) && i < most; ++i) {
    each(*it);
    it.increment(error);
  }
}

// <linux/capability.h>
Capabilities read_capabilities(const HostPaths& paths) {
  constexpr std::string_view kKey = "CapEff:";
  std::uint64_t bits = 0;
  const auto text = read_some(paths.proc / "self/status", 65536).value_or("");
  for (const auto line : lines_of(text)) {
    if (!line.starts_with(kKey)) continue;
    bits = netlink::parse_number<std::uint64_t>(netlink::trimmed(line.substr(kKey.size())), 16)
               .value_or(0);
  }
  const auto has = [&](unsigned bit) { return (bits >> bit & 1U) != 0; };
  return {.net_admin = has(12), .net_raw = has(13), .sys_module = has(16)};
}

bool finds_modprobe() {
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/bin:/usr/bin" : path;
  while (!folders.empty()) {
    const auto end = std::min(folders.find(':'), folders.size());
    const auto program = std::filesystem::path(folders.substr(0, end)) / "modprobe";
    if (::access(program.c_str(), X_OK) == 0) return true;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return false;
}

LoadingRules read_loading_rules(const HostPaths& paths, const Capabilities& capabilities) {
  return {.forbidden = value_of(paths.proc / "sys/kernel/modules_disabled") == "1",
          .by_us = capabilities.sys_module && finds_modprobe(),
          .by_kernel = value_of(paths.proc / "sys/kernel/modprobe") != ""};
}

bool depends_on_ipv6(const ModuleIndex& index, const std::string& module) {
  const auto files = index.files.find(module);
  return files != index.files.end() &&
         std::ranges::any_of(files->second, [](const std::string& file) {
           return file.find("/ipv6.ko") != std::string::npos;
         });
}

void read_modules(const Questions& questions, const HostPaths& paths, NodeFacts& facts) {
  const auto index = read_module_index(paths, facts.release);
  const auto rules = read_loading_rules(paths, facts.capabilities);
  facts.has_nf_tables = index.loaded.contains("nf_tables") || index.built_in.contains("nf_tables");
  const auto read = [&](const ModuleNeed& need, const std::string& name) {
    if (name.empty() || facts.modules.contains(name)) return;
    const auto fact = module_fact({name, need.asked_for_by_kernel}, index, facts.config, rules);
    // A module that is going to be loaded brings IPv6 with it.
    if (fact.state == ModuleState::loadable && depends_on_ipv6(index, name)) facts.has_ipv6 = true;
    facts.modules.emplace(name, fact);
  };
  for (const auto filter : {ipset::PacketFilter::iptables, ipset::PacketFilter::nftables}) {
    auto wanted = questions.wanted;
    wanted.packet_filter = filter;
    for (const auto& need : needs(wanted)) {
      read(need, need.module);
      read(need, need.other);
    }
  }
}

// The names of functions tell, if those of IPVS can be read at all.
std::optional<bool> sctp_in_symbols(const HostPaths& paths) {
  const auto symbols = read_some(paths.proc / "kallsyms", kMostSymbols).value_or("");
  if (symbols.find(" tcp_conn_schedule") == std::string::npos) return std::nullopt;
  return symbols.find(" sctp_conn_schedule") != std::string::npos;
}

SysctlFact read_sysctl(const plan::Sysctl& row, const HostPaths& paths) {
  const auto root = paths.proc / "sys";
  const auto file = root / row.key;
  SysctlFact fact{.wanted = row, .value = value_of(file)};
  // A key of a module that is not loaded is as writable as one that is always there.
  const auto& asked = fact.value ? file : root / "net/ipv4/ip_forward";
  fact.is_fixed = netlink::Sysctl(root).is_fixed(row.key);
  fact.writable = !fact.is_fixed && ::access(asked.c_str(), W_OK) == 0;
  return fact;
}

// The larger of `all` and the link's own counts (Documentation/networking/ip-sysctl.rst).
std::vector<std::string> strict_links(const HostPaths& paths) {
  const auto root = paths.proc / "sys/net/ipv4/conf";
  const auto all = value_of(root / "all/rp_filter").value_or("0");
  std::vector<std::string> links;
  for_each_entry(root, kMostLinks, [&](const auto& entry) {
    const auto name = entry.path().filename().string();
    if (name == "all" || name == "default" || name == "lo") return;
    if (std::max(all, value_of(entry.path() / "rp_filter").value_or("0")) == "1")
      links.push_back(name);
  });
  std::ranges::sort(links);
  return links;
}

std::vector<PortFact> used_ports(const std::vector<WantedPort>& wanted, const HostPaths& paths) {
  std::vector<TcpListener> listeners;
  for (const auto* table : {"net/tcp", "net/tcp6"})
    if (const auto text = read_some(paths.proc / table, kMostTable))
      std::ranges::move(parse_tcp_table(*text), std::back_inserter(listeners));
  std::vector<PortFact> used;
  const auto text_of = [](const TcpListener& listener) {
    return netlink::to_string(listener.address, listener.port);
  };
  for (const auto& port : wanted) {
    const TcpListener own{port.address, port.port};
    const auto found = std::ranges::find_if(
        listeners, [&](const TcpListener& other) { return is_in_the_way(other, own); });
    if (found != listeners.end())
      used.push_back({.purpose = port.purpose, .address = text_of(own), .user = text_of(*found)});
  }
  return used;
}

std::vector<WriterFact> read_writers(const HostPaths& paths) {
  std::error_code ignored;
  const bool swarm = std::filesystem::exists(paths.docker_swarm, ignored);
  std::vector<WriterFact> writers;
  for_each_entry(paths.proc, kMostProcesses, [&](const auto& entry) {
    const auto number = entry.path().filename().string();
    const auto pid = netlink::parse_number<std::int64_t>(number);
    if (!pid || writers.size() >= kMostWriters) return;
    const auto name = value_of(entry.path() / "comm").value_or("");
    if (std::ranges::find(kWriters, name) == kWriters.end()) return;
    if (name != "dockerd" || swarm) writers.push_back({.name = name, .pid = *pid});
  });
  std::ranges::sort(writers);
  return writers;
}

}  // namespace

std::string kernel_release(const HostPaths& paths) {
  return value_of(paths.proc / "sys/kernel/osrelease").value_or("");
}

NodeFacts read_host_facts(const Questions& questions, const HostPaths& paths) {
  NodeFacts facts;
  facts.release = kernel_release(paths);
  facts.config = read_kernel_config(paths, facts.release);
  facts.capabilities = read_capabilities(paths);
  std::error_code ignored;
  facts.has_ipv6 = std::filesystem::exists(paths.proc / "net/if_inet6", ignored);
  facts.ipv6_disabled = netlink::ipv6_is_disabled(paths.proc / "sys");
  read_modules(questions, paths, facts);
  if (!facts.config.known()) facts.sctp_symbol = sctp_in_symbols(paths);
  for (const auto& row : questions.sysctls) facts.sysctls.push_back(read_sysctl(row, paths));
  facts.strict_links = strict_links(paths);
  facts.ports = used_ports(questions.ports, paths);
  facts.writers = read_writers(paths);
  return facts;
}

}  // namespace ipvsproxier::check
