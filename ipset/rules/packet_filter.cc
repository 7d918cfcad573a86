#include "ipset/rules/packet_filter.h"

#include <array>

#include "ipset/rules/nft_catalog.h"

namespace ipvsproxier::ipset {

namespace {

constexpr std::array<SetId, kIpSetIds.size()> kIptablesOrder = {
    SetId::loop_back,
    SetId::load_balancer_source_cidr,
    SetId::load_balancer_source_ip,
    SetId::load_balancer_local,
    SetId::load_balancer_fw,
    SetId::other_endpoints,
    SetId::healthz,
    SetId::node_port_local_tcp,
    SetId::node_port_local_udp,
    SetId::node_port_local_sctp_hash,
    SetId::node_port_tcp,
    SetId::node_port_udp,
    SetId::node_port_sctp_hash,
    SetId::health_check_node_port,
    SetId::external_ip_local,
    SetId::external_ip,
    SetId::load_balancer,
    SetId::cluster_ip,
    SetId::ipvs_ips,
};
constexpr std::array kIptablesTables = {Table::filter, Table::nat};
constexpr std::array kNftTables = {Table::kube_ipvs};

}  // namespace

std::string_view to_string(PacketFilter filter) {
  return filter == PacketFilter::iptables ? "iptables" : "nftables";
}

std::span<const SetId> sets_of(PacketFilter filter) {
  if (filter == PacketFilter::nftables) return kNftSetIds;
  return kIptablesOrder;
}

SetId vip_set(PacketFilter filter) {
  return filter == PacketFilter::nftables ? SetId::nft_vips : SetId::ipvs_ips;
}

std::span<const Table> tables_of(PacketFilter filter) {
  if (filter == PacketFilter::nftables) return kNftTables;
  return kIptablesTables;
}

std::vector<TableRules> rules_for(PacketFilter filter, netlink::Family family,
                                  const RuleParameters& parameters) {
  if (filter == PacketFilter::nftables) return {nft_rules(family, parameters)};
  return rules_for(family, parameters);
}

}  // namespace ipvsproxier::ipset
