#include "proxier/plan/pitfalls.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "netlink/text.h"

namespace ipvsproxier::plan {

namespace {

using netlink::Family;
using PortSet = std::set<std::uint16_t>;

constexpr std::string_view kRangeKey = "net/ipv4/ip_local_port_range";
constexpr std::size_t kNamedPortRanges = 8;

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

std::optional<PortRange> range_in(std::string_view first, std::string_view last) {
  const auto begin = netlink::parse_number<std::uint16_t>(first);
  const auto end = netlink::parse_number<std::uint16_t>(last);
  if (!begin || !end || *end < *begin) return std::nullopt;
  return PortRange{*begin, *end};
}

// "32768\t60999"
std::optional<PortRange> local_range(const std::string& text) {
  const auto first = text.find_first_of(" \t");
  const auto second = text.find_last_of(" \t");
  if (first == std::string::npos) return std::nullopt;
  return range_in(std::string_view(text).substr(0, first),
                  std::string_view(text).substr(second + 1));
}

// "8080,9000-9010"; what is no port is passed over.
PortSet ports_in(std::string_view text) {
  PortSet ports;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const auto dash = word.find('-');
    const auto last = dash == std::string_view::npos ? word : word.substr(dash + 1);
    if (const auto range = range_in(word.substr(0, dash), last))
      for (unsigned port = range->first; port <= range->last; ++port)
        ports.insert(static_cast<std::uint16_t>(port));
  }
  return ports;
}

// The first ranges of many.
std::string some_of(const PortSet& ports) {
  auto text = port_list(ports);
  std::size_t end = 0;
  for (std::size_t i = 0; i < kNamedPortRanges && end != std::string::npos; ++i)
    end = text.find(',', end + 1);
  if (end != std::string::npos) text.replace(end, std::string::npos, ", ...");
  return text;
}

bool is_off(const std::optional<std::string>& value) {
  return !value || *value == "0";
}

}  // namespace

std::string port_list(const PortSet& ports) {
  std::string text;
  for (auto it = ports.begin(); it != ports.end();) {
    const auto first = *it;
    unsigned last = first;
    for (++it; it != ports.end() && *it == last + 1; ++it) ++last;
    if (!text.empty()) text += ',';
    text += last == first ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::optional<std::string> with_reserved(const std::string& reserved, const PortSet& ports) {
  auto all = ports_in(reserved);
  const auto before = all.size();
  all.insert(ports.begin(), ports.end());
  return all.size() == before ? std::nullopt : std::optional(port_list(all));
}

std::optional<Pitfall> local_port_pitfall(const NodeSettings& settings, const PortSet& node_ports) {
  const auto range = settings.local_ports ? local_range(*settings.local_ports) : std::nullopt;
  if (!range) return std::nullopt;
  const auto reserved = ports_in(settings.reserved_ports.value_or(""));
  PortSet met;
  std::ranges::copy_if(node_ports, std::inserter(met, met.end()), [&](auto port) {
    return port >= range->first && port <= range->last && !reserved.contains(port);
  });
  if (met.empty()) return std::nullopt;
  return Pitfall{
      .about = fmt::format("sysctl {}", kRangeKey),
      .message = fmt::format(
          "it is {} to {}, which has node ports ({}): a connection of this node that begins at one "
          "gets no answer, because the answer is sent to a pod",
          range->first, range->last, some_of(met)),
      .remedy =
          "add the node ports to net.ipv4.ip_local_reserved_ports, or start ipvs-proxier with "
          "--reserve-node-ports, which adds them"};
}

std::optional<Pitfall> bridge_pitfall(
    const NodeSettings& settings, const std::vector<netlink::InterfaceAddress>& addresses,
    const std::function<bool(const netlink::InterfaceAddress&)>& has_pods) {
  std::set<std::string> links;
  std::set<std::string> keys;
  for (const auto& one : addresses) {
    const auto bridge = settings.bridges.find(one.link);
    if (bridge == settings.bridges.end()) continue;
    const bool is_ipv4 = one.address.family() == Family::ipv4;
    const bool calls = is_ipv4 ? bridge->second.ipv4 : bridge->second.ipv6;
    if (calls || !is_off(is_ipv4 ? settings.bridge_ipv4 : settings.bridge_ipv6)) continue;
    if (!has_pods(one)) continue;
    links.insert(one.link);
    keys.insert(is_ipv4 ? "net.bridge.bridge-nf-call-iptables"
                        : "net.bridge.bridge-nf-call-ip6tables");
  }
  if (links.empty()) return std::nullopt;
  const bool is_loaded = settings.bridge_ipv4 || settings.bridge_ipv6;
  return Pitfall{
      .about = fmt::format("bridge {}", fmt::join(links, ", ")),
      .message =
          fmt::format("a pod behind it gets no answer from an endpoint that is behind it, too, "
                      "because {}",
                      is_loaded ? fmt::format("{} is 0", fmt::join(keys, " and "))
                                : "module br_netfilter is not loaded"),
      .remedy = fmt::format("{}set {} to 1, at each start of the node",
                            is_loaded ? "" : "load br_netfilter and ", fmt::join(keys, " and "))};
}

std::optional<Pitfall> idle_pitfall(const NodeSettings& settings, std::uint32_t tcp_timeout) {
  const auto keepalive =
      settings.keepalive ? netlink::parse_number<std::uint32_t>(*settings.keepalive) : std::nullopt;
  if (!keepalive || tcp_timeout == 0 || tcp_timeout >= *keepalive) return std::nullopt;
  return Pitfall{
      .about = "IPVS time-out of TCP",
      .message = fmt::format("a connection to a Service without a packet for {} s is "
                             "forgotten, and reset at its next packet; the kernel's keep-alive "
                             "begins after {} s only (net.ipv4.tcp_keepalive_time)",
                             tcp_timeout, *keepalive),
      .remedy =
          "set ipvs.tcpTimeout to more than the longest silence, 2h5m for instance, or let the "
          "programs send keep-alives earlier"};
}

}  // namespace ipvsproxier::plan
