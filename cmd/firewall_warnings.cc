#include "cmd/firewall_warnings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cmd/kernel_tables.h"
#include "cmd/packet_filter_facts.h"
#include "ipset/nftables/filter_kernel.h"
#include "ipset/rules/rule_iptc.h"
#include "netlink/ipvs/ipvs_reader_kernel.h"
#include "netlink/kernel_module.h"

namespace ipvsproxier::cmd {

namespace {

using ipset::FirewallWarning;
using netlink::Family;

void add_legacy(Family family, ipset::PacketFilter filter,
                const std::vector<ipset::FirewallSample>& samples,
                std::vector<FirewallWarning>& warnings) {
  const auto whole = ipset::IptcRuleTable({.dry_run = true}).read(family, ipset::Table::filter);
  if (whole && *whole)
    std::ranges::move(ipset::find_legacy_warnings(family, **whole, filter, samples),
                      std::back_inserter(warnings));
}

// With one of its real servers, of as many as are judged.
netlink::Status add_sample(netlink::IpvsReader& reader, const netlink::ServiceReading& one,
                           std::vector<ipset::FirewallSample>& samples) {
  const auto& key = one.service.key;
  if (key.fwmark != 0) return {};
  ipset::FirewallSample sample{
      .address = key.address, .protocol = key.protocol, .port = key.port, .server = {}};
  if (samples.size() < 2 * ipset::kMostFirewallSamples) {
    auto read = reader.servers(key, [&](const netlink::ServerReading& each) -> netlink::Status {
      sample.server = each.listed.server.key.address;
      sample.server_port = each.listed.server.key.port;
      return {};
    });
    if (!read) return read;
  }
  samples.push_back(sample);
  return {};
}

}  // namespace

netlink::Result<std::vector<FirewallWarning>> firewall_warnings(
    ipset::PacketFilter filter, const std::vector<ipset::FirewallSample>& samples) {
  std::vector<FirewallWarning> warnings;
  if (netlink::module_present("nf_tables")) {
    const auto nftables = ipset::KernelFilterTable::open();
    if (!nftables) return nftables.error();
    auto found = ipset::find_firewall_warnings(**nftables, filter, samples);
    if (!found) return found;
    warnings = *std::move(found);
  }
  for (const auto family : netlink::kFamilies)
    if (uses_legacy_iptables()) add_legacy(family, filter, samples, warnings);
  return warnings;
}

netlink::Result<std::vector<FirewallWarning>> loaded_firewall_warnings() {
  const auto programmed = open_programmed_filter();
  if (!programmed) return programmed.error();
  std::vector<ipset::FirewallSample> samples;
  const auto reader =
      netlink::module_present("ip_vs") ? netlink::KernelIpvsReader::open() : netlink::Error{};
  if (reader) {
    const auto read = (*reader)->services(
        [&](const netlink::ServiceReading& one) { return add_sample(**reader, one, samples); });
    if (!read) return read.error();
  }
  return firewall_warnings(programmed->filter, samples);
}

}  // namespace ipvsproxier::cmd
