#pragma once

// The sets of each family: their names and how they are created. Pure; any thread.
//
// With iptables these are 17 IP sets, whose names, kinds and comments are kube-proxy's, so that
// sets can be taken over from it and handed back, and two of our own. With nf_tables they are sets
// and maps of the table "kube-ipvs" of each family (rules/nft_catalog.h). rules/packet_filter.h
// says which are in use.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ipset/sets/set_types.h"

namespace ipvsproxier::ipset {

enum class SetId : std::uint8_t {
  loop_back,
  cluster_ip,
  external_ip,
  external_ip_local,
  load_balancer,
  load_balancer_fw,
  load_balancer_local,
  load_balancer_source_ip,
  load_balancer_source_cidr,
  node_port_tcp,
  node_port_local_tcp,
  node_port_udp,
  node_port_local_udp,
  node_port_sctp_hash,
  node_port_local_sctp_hash,
  health_check_node_port,
  ipvs_ips,
  other_endpoints,
  healthz,
  nft_source_ranges,
  nft_hairpins,
  nft_in_cluster,
  nft_on_links,
  nft_localhost,
  nft_other_endpoints,
  nft_healthz,
  nft_services,
  nft_health_ports,
  nft_vips,
};

// The sets of iptables that kube-proxy has too, in the order of their creation.
inline constexpr std::array<SetId, 17> kSetIds = {
    SetId::loop_back,
    SetId::cluster_ip,
    SetId::external_ip,
    SetId::external_ip_local,
    SetId::load_balancer,
    SetId::load_balancer_fw,
    SetId::load_balancer_local,
    SetId::load_balancer_source_ip,
    SetId::load_balancer_source_cidr,
    SetId::node_port_tcp,
    SetId::node_port_local_tcp,
    SetId::node_port_udp,
    SetId::node_port_local_udp,
    SetId::node_port_sctp_hash,
    SetId::node_port_local_sctp_hash,
    SetId::health_check_node_port,
    SetId::ipvs_ips,
};

// Those that it does not have. They are made with their first element.
inline constexpr std::array<SetId, 2> kOwnSetIds = {SetId::other_endpoints, SetId::healthz};

// Both.
inline constexpr auto kIpSetIds = [] {
  std::array<SetId, kSetIds.size() + kOwnSetIds.size()> all{};
  std::size_t i = 0;
  for (const auto id : kSetIds) all[i++] = id;
  for (const auto id : kOwnSetIds) all[i++] = id;
  return all;
}();

// Those of nf_tables.
inline constexpr std::array<SetId, 10> kNftSetIds = {
    SetId::nft_source_ranges, SetId::nft_hairpins,  SetId::nft_in_cluster,
    SetId::nft_on_links,      SetId::nft_localhost, SetId::nft_other_endpoints,
    SetId::nft_healthz,       SetId::nft_services,  SetId::nft_health_ports,
    SetId::nft_vips,
};

// One set of a family.
struct SetKey {
  Family family = Family::ipv4;
  SetId id = SetId::loop_back;

  friend auto operator<=>(const SetKey&, const SetKey&) = default;
};

// "KUBE-LOOP-BACK"; "KUBE-6-LOOP-BACK" for IPv6, cut at the kernel's 31 bytes. Sets of nf_tables
// as nft(8) names them, "ip kube-ipvs vips".
std::string set_name(SetId id, Family family);

// The maxelem of kube-proxy's sets.
inline constexpr std::uint32_t kSetCapacity = 65536;

// The maxelem of a set for this number of elements: kSetCapacity, or a larger power of two, at most
// 16,777,216 (about a gigabyte of kernel memory).
std::uint32_t capacity_for(std::size_t elements);

// How the set is created. Up to kSetCapacity the hashsize is 1024, as kube-proxy's; a larger set
// starts with the hashsize that it would grow to. The capacity of a bitmap:port is its range; sets
// of nf_tables have none.
SetSpec set_spec(SetId id, Family family, std::uint32_t capacity = kSetCapacity);

// Whether the set exists only once it has elements.
bool is_made_late(SetId id);

// Whether the set holds as many elements as memory does.
bool is_unbounded(SetId id);

// The comment of the iptables rules that use the set; the same for both families. "" for sets of
// nf_tables.
std::string_view set_comment(SetId id);

}  // namespace ipvsproxier::ipset
