#include "ipset/rules/packet_filter_choice.h"

#include <array>
#include <string_view>

namespace ipvsproxier::ipset {

namespace {

using Facts = PacketFilterFacts;

// The first row that holds decides, if the packet filter works.
struct ChoiceRow {
  bool Facts::*fact;
  PacketFilter filter;
  std::string_view reason;
};

constexpr auto kChoiceRows = std::to_array<ChoiceRow>({
    {&Facts::has_nft_table, PacketFilter::nftables, "our table of nf_tables is there"},
    {&Facts::has_foreign_nft_table, PacketFilter::iptables,
     "a table kube-ipvs of nf_tables is there that is not ours"},
    {&Facts::has_kubernetes_chains, PacketFilter::iptables,
     "chains of Kubernetes are in legacy iptables"},
    {&Facts::has_iptables_tables, PacketFilter::iptables, "legacy iptables is in use here"},
    {&Facts::nftables_works, PacketFilter::nftables,
     "nothing here uses legacy iptables that works"},
    {&Facts::iptables_works, PacketFilter::iptables, "nf_tables does not work here"},
});

bool works(PacketFilter filter, const Facts& facts) {
  return filter == PacketFilter::nftables ? facts.nftables_works : facts.iptables_works;
}

netlink::Error lacks(std::string message) {
  return {netlink::ErrorKind::unsupported, 0, std::move(message)};
}

std::string iptables_needs(const Facts& facts) {
  if (!facts.iptables_fault.empty())
    return "legacy iptables cannot be used: " + facts.iptables_fault;
  return "the kernel has no legacy iptables with IP sets (modules ip_tables, iptable_nat, "
         "iptable_filter, ip_set)";
}
constexpr const char* kNftNeeds = "the kernel has no nf_tables (module nf_tables)";

}  // namespace

netlink::Result<PacketFilterChoice> choose_packet_filter(PacketFilterWish wish, bool compat,
                                                         const Facts& facts) {
  if (compat && wish == PacketFilterWish::nftables)
    return lacks(
        "--kube-proxy-compat has kube-proxy's rules, which are those of iptables: leave "
        "out --packet-filter=nftables");
  if (compat || wish == PacketFilterWish::iptables) {
    const char* reason = compat ? "--kube-proxy-compat" : "--packet-filter";
    if (!facts.iptables_works) return lacks(iptables_needs(facts) + ", which " + reason + " needs");
    return PacketFilterChoice{PacketFilter::iptables, reason};
  }
  if (wish == PacketFilterWish::nftables) {
    if (!facts.nftables_works)
      return lacks(std::string(kNftNeeds) + ", which --packet-filter=nftables needs");
    return PacketFilterChoice{PacketFilter::nftables, "--packet-filter"};
  }
  std::string without;
  for (const auto& [fact, filter, reason] : kChoiceRows) {
    if (!(facts.*fact)) continue;
    if (works(filter, facts)) return PacketFilterChoice{filter, std::string(reason) + without};
    if (without.empty() && filter == PacketFilter::iptables)
      without = "; although " + std::string(reason) + ", " + iptables_needs(facts);
  }
  return lacks(std::string(kNftNeeds) + ", and " + iptables_needs(facts) +
               ": it needs one of them");
}

}  // namespace ipvsproxier::ipset
