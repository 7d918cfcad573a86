#pragma once

// Reads the facts by which the packet filter is chosen (packet_filter_choice.h). One thread.

#include <functional>
#include <string>
#include <vector>

#include "cmd/packet_filter_choice.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::cmd {

// How the kernel is asked; each is called only if its answer counts.
struct PacketFilterQuestions {
  // The legacy tables of a family in this network namespace; reading makes none.
  std::function<std::vector<ipset::Table>(netlink::Family)> iptables_tables;
  // Chain names of one of them.
  std::function<std::vector<std::string>(netlink::Family, ipset::Table)> iptables_chains;
  // Whether legacy iptables and IP sets work; asking may load modules and make a table.
  std::function<bool()> iptables_works;
  // nullptr: the kernel has no nf_tables.
  ipset::FilterTable* nftables = nullptr;
};

// Whether somebody uses legacy iptables in this network namespace. Makes no table, loads nothing.
bool uses_legacy_iptables();

// Whether our table is there in a family.
netlink::Result<bool> has_our_nft_table(ipset::FilterTable& nftables);

PacketFilterFacts packet_filter_facts(PacketFilterWish wish, bool compat,
                                      const PacketFilterQuestions& questions);

// The questions to the kernel of this network namespace. `nftables` must outlive the result.
PacketFilterQuestions kernel_packet_filters(ipset::FilterTable* nftables);

}  // namespace ipvsproxier::cmd
