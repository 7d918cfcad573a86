#pragma once

// The 17 IP sets of each family: their names and how they are created. Pure; any thread. Names,
// kinds and comments are kube-proxy's, so that sets can be taken over from it and handed back.

#include <array>
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
};

// All sets, in the order of their creation.
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

// "KUBE-LOOP-BACK"; "KUBE-6-LOOP-BACK" for IPv6, cut at the kernel's 31 bytes.
std::string set_name(SetId id, Family family);

// The maxelem of kube-proxy's sets.
inline constexpr std::uint32_t kSetCapacity = 65536;

// The maxelem of a set for this number of elements: kSetCapacity, or a larger power of two, at most
// 16,777,216 (about a gigabyte of kernel memory).
std::uint32_t capacity_for(std::size_t elements);

// How the set is created. Up to kSetCapacity the hashsize is 1024, as kube-proxy's; a larger set
// starts with the hashsize that it would grow to. The capacity of a bitmap:port is its range.
SetSpec set_spec(SetId id, Family family, std::uint32_t capacity = kSetCapacity);

// The comment of the iptables rules that use the set; the same for both families.
std::string_view set_comment(SetId id);

}  // namespace ipvsproxier::ipset
