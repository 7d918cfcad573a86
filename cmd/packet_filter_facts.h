#pragma once

// Reads the facts by which the packet filter is chosen (packet_filter_choice.h), and chooses. One
// thread.

#include <functional>
#include <optional>
#include <vector>

#include <spdlog/logger.h>

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/packet_filter_choice.h"
#include "ipset/rules/rule_types.h"

namespace ipvsproxier::cmd {

// How the kernel is asked; each is called only if its answer counts.
struct PacketFilterQuestions {
  // A legacy table of this network namespace; reading makes none.
  std::function<netlink::Result<std::optional<ipset::WholeTable>>(netlink::Family, ipset::Table)>
      iptables_table;
  // Whether legacy iptables of a family and IP sets work, can be written and have what the rules of
  // every cluster need, or why not; asking may load modules and make tables.
  std::function<netlink::Status(netlink::Family)> iptables_works;
  // Whether this network namespace has IPv6.
  std::function<bool()> has_ipv6;
  // Whether the kernel takes our rules of nf_tables in a family, or why not. Nothing of the trial
  // stays.
  std::function<netlink::Status(netlink::Family)> nftables_works;
  // nullptr: none is loaded, so that our table is not there.
  ipset::FilterTable* nftables = nullptr;
};

// Whether somebody uses legacy iptables in this network namespace. Makes no table, loads nothing.
bool uses_legacy_iptables();

// Whether our table is there in a family; not an empty one, nor one that somebody else made.
netlink::Result<bool> has_our_nft_table(ipset::FilterTable& nftables);

// What is there, without what works.
ipset::PacketFilterFacts seen_packet_filters(const PacketFilterQuestions& questions);
// What the choice needs to know.
ipset::PacketFilterFacts packet_filter_facts(ipset::PacketFilterWish wish, bool compat,
                                             const PacketFilterQuestions& questions);

// The questions to the kernel of this network namespace. `nftables` must outlive the result; it is
// nullptr if the kernel has none.
PacketFilterQuestions kernel_packet_filters(ipset::FilterTable* nftables);

// The same for a dry run, which loads and writes nothing: a packet filter works if its modules are
// loaded or could be.
PacketFilterQuestions loaded_packet_filters(ipset::FilterTable* nftables);

// What a daemon uses, with its reason: the choice, or iptables if neither works or iptables is
// asked for and does not work, because its tables are tried again. Logs either. An error: nf_tables
// is asked for and cannot be used.
netlink::Result<ipset::PacketFilterChoice> settle_packet_filter(
    ipset::PacketFilterWish wish, bool compat, const PacketFilterQuestions& questions,
    spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
