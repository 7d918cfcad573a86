#include "ipset/sets/set_catalog.h"

#include <algorithm>
#include <bit>

namespace ipvsproxier::ipset {
namespace {

// IPSET_MAXNAMELEN of <linux/netfilter/ipset/ip_set.h>, without the final NUL.
constexpr std::size_t kMaxNameLength = 31;

struct SetRow {
  SetId id;
  std::string_view name;  // without the prefix of the family
  SetKind kind;
  std::string_view comment;
};

constexpr std::array<SetRow, kIpSetIds.size() + kNftSetIds.size()> kRows = {{
    {SetId::loop_back, "LOOP-BACK", SetKind::hash_ip_port_ip,
     "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"},
    {SetId::cluster_ip, "CLUSTER-IP", SetKind::hash_ip_port,
     "Kubernetes service cluster ip + port for masquerade purpose"},
    {SetId::external_ip, "EXTERNAL-IP", SetKind::hash_ip_port,
     "Kubernetes service external ip + port for masquerade and filter purpose"},
    {SetId::external_ip_local, "EXTERNAL-IP-LOCAL", SetKind::hash_ip_port,
     "Kubernetes service external ip + port with externalTrafficPolicy=local"},
    {SetId::load_balancer, "LOAD-BALANCER", SetKind::hash_ip_port, "Kubernetes service lb portal"},
    {SetId::load_balancer_fw, "LOAD-BALANCER-FW", SetKind::hash_ip_port,
     "Kubernetes service load balancer ip + port for load balancer with sourceRange"},
    {SetId::load_balancer_local, "LOAD-BALANCER-LOCAL", SetKind::hash_ip_port,
     "Kubernetes service load balancer ip + port with externalTrafficPolicy=local"},
    {SetId::load_balancer_source_ip, "LOAD-BALANCER-SOURCE-IP", SetKind::hash_ip_port_ip,
     "Kubernetes service load balancer ip + port + source IP for packet filter purpose"},
    {SetId::load_balancer_source_cidr, "LOAD-BALANCER-SOURCE-CIDR", SetKind::hash_ip_port_net,
     "Kubernetes service load balancer ip + port + source cidr for packet filter purpose"},
    {SetId::node_port_tcp, "NODE-PORT-TCP", SetKind::bitmap_port,
     "Kubernetes nodeport TCP port for masquerade purpose"},
    {SetId::node_port_local_tcp, "NODE-PORT-LOCAL-TCP", SetKind::bitmap_port,
     "Kubernetes nodeport TCP port with externalTrafficPolicy=local"},
    {SetId::node_port_udp, "NODE-PORT-UDP", SetKind::bitmap_port,
     "Kubernetes nodeport UDP port for masquerade purpose"},
    {SetId::node_port_local_udp, "NODE-PORT-LOCAL-UDP", SetKind::bitmap_port,
     "Kubernetes nodeport UDP port with externalTrafficPolicy=local"},
    {SetId::node_port_sctp_hash, "NODE-PORT-SCTP-HASH", SetKind::hash_ip_port,
     "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'"},
    {SetId::node_port_local_sctp_hash, "NODE-PORT-LOCAL-SCTP-HASH", SetKind::hash_ip_port,
     "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'"},
    {SetId::health_check_node_port, "HEALTH-CHECK-NODE-PORT", SetKind::bitmap_port,
     "Kubernetes health check node port"},
    {SetId::ipvs_ips, "IPVS-IPS", SetKind::hash_ip, "Addresses on the ipvs interface"},
    {SetId::other_endpoints, "OTHER-ENDPOINTS", SetKind::hash_ip, ""},
    {SetId::healthz, "HEALTHZ", SetKind::hash_ip, ""},
    {SetId::nft_source_ranges, "restricted", SetKind::nft_source_ranges, ""},
    {SetId::nft_hairpins, "local_endpoints", SetKind::nft_hairpins, ""},
    {SetId::nft_in_cluster, "in_cluster", SetKind::nft_destinations, ""},
    {SetId::nft_on_links, "on_links", SetKind::nft_destinations, ""},
    {SetId::nft_localhost, "localhost", SetKind::nft_destinations, ""},
    {SetId::nft_other_endpoints, "other_endpoints", SetKind::nft_addresses, ""},
    {SetId::nft_healthz, "healthz", SetKind::nft_addresses, ""},
    {SetId::nft_services, "services", SetKind::nft_services, ""},
    {SetId::nft_health_ports, "health_ports", SetKind::nft_ports, ""},
    {SetId::nft_vips, "vips", SetKind::nft_addresses, ""},
}};

constexpr bool rows_stand_at_their_id() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const auto id = i < kIpSetIds.size() ? kIpSetIds[i] : kNftSetIds[i - kIpSetIds.size()];
    if (kRows[i].id != id || static_cast<std::size_t>(id) != i) return false;
  }
  return true;
}
static_assert(rows_stand_at_their_id());

const SetRow& set_row(SetId id) {
  return kRows[static_cast<std::size_t>(id)];
}

}  // namespace

bool is_made_late(SetId id) {
  return id == SetId::nft_localhost || id == SetId::nft_other_endpoints ||
         id == SetId::nft_healthz || std::ranges::find(kOwnSetIds, id) != kOwnSetIds.end();
}

bool is_unbounded(SetId id) {
  return is_nft(set_row(id).kind);
}

std::string set_name(SetId id, Family family) {
  if (is_nft(set_row(id).kind))
    return (family == Family::ipv6 ? "ip6 kube-ipvs " : "ip kube-ipvs ") +
           std::string(set_row(id).name);
  std::string name = family == Family::ipv6 ? "KUBE-6-" : "KUBE-";
  name += set_row(id).name;
  if (name.size() > kMaxNameLength) name.resize(kMaxNameLength);
  return name;
}

std::uint32_t capacity_for(std::size_t elements) {
  constexpr std::size_t kMost = std::size_t{1} << 24;
  return static_cast<std::uint32_t>(
      std::clamp(std::bit_ceil(std::min(elements, kMost)), std::size_t{kSetCapacity}, kMost));
}

SetSpec set_spec(SetId id, Family family, std::uint32_t capacity) {
  SetSpec spec{.name = set_name(id, family), .kind = set_row(id).kind, .family = family};
  if (spec.kind == SetKind::bitmap_port || is_nft(spec.kind) || capacity == kSetCapacity)
    return spec;
  spec.max_elements = capacity;
  spec.hash_size = std::max(spec.hash_size, capacity / 4);
  return spec;
}

std::string_view set_comment(SetId id) {
  return set_row(id).comment;
}

}  // namespace ipvsproxier::ipset
