#include "ipset/rules/packet_filter_choice.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

namespace {

using Facts = PacketFilterFacts;

// The first row that holds decides, if the packet filter works.
struct ChoiceRow {
  bool holds = false;
  PacketFilter filter = PacketFilter::iptables;
  std::string reason;
};

std::string nft_needs(const Facts& facts) {
  if (!facts.nftables_fault.empty())
    return "the kernel does not take our rules of nf_tables: " + facts.nftables_fault;
  return "the kernel has no nf_tables (module nf_tables)";
}

std::vector<ChoiceRow> choice_rows(const Facts& facts) {
  using enum PacketFilter;
  return {
      {facts.has_nft_table, nftables, "our table of nf_tables is there"},
      {facts.has_foreign_nft_table, iptables,
       "a table kube-ipvs of nf_tables is there that is not ours"},
      {facts.has_our_iptables, iptables, "our rules are in legacy iptables"},
      {!facts.only_iptables_accept.empty(), iptables,
       "a chain of this host drops what only rules of legacy iptables can accept"},
      {!facts.unjudged.empty(), iptables, facts.unjudged},
      {facts.nftables_works && !facts.nftables_fault.empty(), iptables, nft_needs(facts)},
      {facts.nftables_works, nftables, "nf_tables works here"},
      {facts.iptables_works, iptables, nft_needs(facts)},
  };
}

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

std::vector<std::string> notes_of(PacketFilter filter, PacketFilterWish wish, const Facts& facts) {
  const bool nftables = filter == PacketFilter::nftables;
  std::vector<std::string> notes{std::string(nftables ? kHandBack : kIptablesLacks)};
  if (!facts.only_iptables_accept.empty())
    notes.push_back((nftables ? "" : "before --packet-filter=nftables: ") +
                    facts.only_iptables_accept);
  else if (wish == PacketFilterWish::automatic && facts.nftables_works && facts.has_our_iptables &&
           !nftables && facts.unjudged.empty() && !facts.has_foreign_nft_table)
    notes.emplace_back(
        "nothing here needs legacy iptables: --packet-filter=nftables changes the node");
  return notes;
}

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
    return PacketFilterChoice{
        PacketFilter::iptables, reason,
        compat ? std::vector<std::string>{} : notes_of(PacketFilter::iptables, wish, facts)};
  }
  if (wish == PacketFilterWish::nftables) {
    if (!facts.nftables_works)
      return lacks(nft_needs(facts) + ", which --packet-filter=nftables needs");
    return PacketFilterChoice{PacketFilter::nftables, "--packet-filter",
                              notes_of(PacketFilter::nftables, wish, facts)};
  }
  std::string without;
  for (auto& [holds, filter, reason] : choice_rows(facts)) {
    if (!holds) continue;
    if (works(filter, facts))
      return PacketFilterChoice{filter, reason + without, notes_of(filter, wish, facts)};
    if (without.empty())
      without =
          fmt::format("; although {}, {}", reason,
                      filter == PacketFilter::iptables ? iptables_needs(facts) : nft_needs(facts));
  }
  return lacks(nft_needs(facts) + ", and " + iptables_needs(facts) + ": it needs one of them");
}

}  // namespace ipvsproxier::ipset
