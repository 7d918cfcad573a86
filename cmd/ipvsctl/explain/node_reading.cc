#include "cmd/ipvsctl/explain/node_reading.h"

#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "cmd/ipvsctl/explain/nft_node.h"
#include "cmd/kernel_tables.h"
#include "ipset/sets/set_catalog.h"
#include "ipset/sets/set_resolver.h"
#include "netlink/ipvs/ipvs_kernel.h"
#include "netlink/kernel_module.h"
#include "netlink/links/host_reader_kernel.h"
#include "netlink/sysctl.h"

namespace ipvsproxier::ctl {

namespace {

using netlink::Family;
using netlink::Result;
using netlink::Status;

// Stores the value, or returns its error.
template <typename T>
Status keep(Result<T> read, T& target) {
  if (!read) return read.error();
  target = std::move(*read);
  return {};
}

void read_sets(NodeTables& tables, NodeReading& node) {
  if (!tables.sets) return;
  auto names = consulted_sets(node.tables);
  names.merge(consulted_sets(node.nft_rules));
  for (const auto& name : names) {
    const auto listed = tables.sets->list(name);
    if (listed && *listed) {
      const auto& elements = (*listed)->elements;
      node.sets[name] = {elements.begin(), elements.end()};
    } else if (const auto nets = tables.sets->list_nets(name); nets && *nets) {
      node.net_sets[name] = **nets;
    }
  }
}

// An address to which rules of nf_tables may send packets is a constant of theirs, or in a map.
class NftDestinations {
 public:
  explicit NftDestinations(Family family) : family_(family) {}

  std::set<netlink::IpAddress> of(const std::map<std::string, NftRules>& tables) && {
    for (const auto& [name, table] : tables) {
      for (const auto& [chain, rules] : table.chains)
        for (const auto& rule : rules)
          for (const auto& step : rule) take(step);
      for (const auto& [set, content] : table.sets)
        for (const auto& element : content.elements)
          if (element.data) take(*element.data);
    }
    return std::move(found_);
  }

 private:
  void take(const ipset::NftStep& step) {
    if (const auto* constant = std::get_if<netlink::NftImmediate>(&step)) take(constant->data);
    const auto* extension = std::get_if<ipset::ExtensionStep>(&step);
    if (extension == nullptr || !extension->action) return;
    const auto* action = std::get_if<ipset::TranslateAction>(&*extension->action);
    if (action != nullptr && action->address) found_.insert(*action->address);
  }
  void take(const netlink::NftData& data) {
    const auto* bytes = std::get_if<netlink::Bytes>(&data);
    const std::size_t size = netlink::address_bits(family_) / 8U;
    if (bytes == nullptr || bytes->size() < size) return;
    found_.insert(*netlink::IpAddress::from_bytes(family_, std::span(*bytes).first(size)));
  }

  Family family_;
  std::set<netlink::IpAddress> found_;
};

std::optional<netlink::IpAddress> translates_to(const ipset::Rule& rule) {
  if (const auto* ours = std::get_if<ipset::DestinationTarget>(&rule.target)) return ours->address;
  const auto* foreign = std::get_if<ipset::ForeignTarget>(&rule.target);
  if (foreign == nullptr) return std::nullopt;
  const auto* action = std::get_if<ipset::TranslateAction>(&foreign->action);
  return action == nullptr ? std::nullopt : action->address;
}

// The addresses to which rules may send packets for `destination`, including itself.
std::set<netlink::IpAddress> possible_destinations(const netlink::IpAddress& destination,
                                                   const NodeReading& node) {
  auto result = NftDestinations(destination.family()).of(node.nft_rules);
  result.insert(destination);
  for (const auto& [key, table] : node.tables)
    for (const auto& [chain, rules] : table.chains)
      for (const auto& rule : rules)
        if (const auto to = translates_to(rule)) result.insert(*to);
  return result;
}

// Where our map of nf_tables sends clients of the cluster instead.
void add_in_cluster_ways(const netlink::IpAddress& destination, const NodeReading& node,
                         std::set<netlink::IpAddress>& destinations) {
  const auto set =
      node.sets.find(ipset::set_name(ipset::SetId::nft_in_cluster, destination.family()));
  if (set == node.sets.end()) return;
  for (const auto& element : set->second)
    if (const auto* one = std::get_if<ipset::DestinationElement>(&element);
        one != nullptr && one->ip == destination)
      destinations.insert(one->to);
}

Status read_services(NodeTables& tables, const std::set<netlink::IpAddress>& destinations,
                     NodeReading& node) {
  if (!tables.ipvs) return {};
  const auto services = tables.ipvs->list_services();
  if (!services) return services.error();
  for (const auto& service : *services) {
    if (service.key.fwmark == 0 && !destinations.contains(service.key.address)) continue;
    const auto servers = tables.ipvs->list_servers(service.key);
    if (!servers) return servers.error();
    auto& read = node.services[service.key];
    read.service = service;
    read.servers.emplace();
    for (const auto& listed : *servers) read.servers->insert_or_assign(listed.server);
  }
  return {};
}

Status read_host(netlink::HostReader& host, NodeReading& node) {
  if (auto status = keep(host.links(), node.links); !status) return status;
  if (auto status = keep(host.addresses(), node.addresses); !status) return status;
  auto listeners = host.listeners();
  // Without its module the kernel has no list.
  if (!listeners && listeners.error().kind == netlink::ErrorKind::missing) return {};
  if (!listeners) return listeners.error();
  node.listeners = std::move(*listeners);
  return {};
}

// An absent key belongs to a module that is not loaded, which means 0.
bool is_on(const std::string& key) {
  const auto value = netlink::Sysctl().read(key);
  return value && *value != "0";
}

}  // namespace

Result<NodeTables> open_node_tables() {
  auto programmed = cmd::open_programmed_filter();
  if (!programmed) return programmed.error();
  NodeTables tables;
  tables.nftables = std::move(programmed->nftables);
  auto host = netlink::KernelHostReader::open();
  if (!host) return host.error();
  tables.host = std::move(*host);
  const auto has_ipvs = netlink::kernel_has_module("ip_vs");
  if (!has_ipvs) return has_ipvs.error();
  if (*has_ipvs) {
    auto ipvs = netlink::KernelIpvsTable::open();
    if (!ipvs) return ipvs.error();
    tables.ipvs = std::move(*ipvs);
  }
  const auto has_sets = netlink::kernel_has_module("ip_set");
  if (!has_sets) return has_sets.error();
  if (*has_sets) {
    auto sets = ipset::LibipsetTable::open();
    if (!sets) return sets.error();
    tables.sets = std::move(*sets);
  }
  return tables;
}

Status read_rule_tables(ipset::IptcRuleTable& rules, Family family, RuleTables& tables) {
  for (const auto table :
       {ipset::Table::raw, ipset::Table::mangle, ipset::Table::nat, ipset::Table::filter}) {
    auto read = rules.read(family, table);
    if (!read) return read.error();
    if (*read) tables.emplace(plan::TableKey{family, table}, std::move(**read));
  }
  return {};
}

Result<NodeReading> read_node(NodeTables& tables, const netlink::IpAddress& destination) {
  NodeReading node;
  const auto family = destination.family();
  if (const auto status = read_host(*tables.host, node); !status) return status.error();
  if (const auto status = read_rule_tables(tables.rules, family, node.tables); !status)
    return status.error();
  if (tables.nftables) {
    ipset::KernelSetResolver ip_sets;
    const NftReader reader{*tables.nftables, family, ip_sets};
    if (auto status = read_our_nft_table(reader, node); !status) return status.error();
    if (auto status = read_other_nft_tables(reader, node); !status) return status.error();
  }
  auto destinations = possible_destinations(destination, node);
  add_in_cluster_ways(destination, node, destinations);
  if (const auto status = read_services(tables, destinations, node); !status) return status.error();
  read_sets(tables, node);
  node.tracks_ipvs = is_on("net/ipv4/vs/conntrack");
  for (const auto& link : node.links)
    if (is_on("net/ipv4/conf/" + link.name + "/forwarding")) node.forwards_ipv4.insert(link.name);
  node.forwards_ipv6 = is_on("net/ipv6/conf/all/forwarding");
  if (is_on("net/bridge/bridge-nf-call-iptables")) node.bridge_calls.insert(Family::ipv4);
  if (is_on("net/bridge/bridge-nf-call-ip6tables")) node.bridge_calls.insert(Family::ipv6);
  return node;
}

}  // namespace ipvsproxier::ctl
