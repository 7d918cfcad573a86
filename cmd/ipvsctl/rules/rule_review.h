#pragma once

// Marks the rules in our chains of the packet filter by the catalogue (catalogue.h). What is
// missing is not told here, but by `ipvsctl diff`. Pure, any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cmd/ipvsctl/listing/foreign_sets.h"
#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_catalog.h"
#include "ipset/rules/rule_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::ctl {

struct RuleReading {
  std::map<plan::TableKey, ipset::WholeTable> tables;  // existing tables
  std::map<std::string, std::size_t> sets;             // number of elements of each set
  // Our tables of nf_tables with everything in them. With one of them our rules are in nf_tables,
  // and what the tables of iptables have of ours is left over.
  std::map<netlink::Family, ipset::FilterContents> nft;
  // What the daemon's flags and its Node say of the rules. Without an entry of a family its rules
  // are not judged.
  std::map<netlink::Family, ipset::RuleParameters> settings;
};

// Adds our table of nf_tables, its rules and its sets.
void take_nft_table(RuleReading& reading, netlink::Family family, ipset::FilterContents contents);

// Selects chains by family, table and name; each may be left open. A named chain is shown whole,
// whichever program made it.
struct RuleChoice {
  std::optional<netlink::Family> family;
  std::optional<ipset::Table> table;
  std::string chain;
};

enum class RuleState : std::uint8_t {
  ours,
  foreign,     // in or leading to a chain of ours, but not ours
  leftover,    // in iptables while our rules are in nf_tables
  not_judged,  // in a chain of another program, or the daemon's settings are not known
};

struct ReviewedRule {
  ipset::Rule rule;
  std::optional<ipset::RuleCount> count;  // if it counts
  RuleState state = RuleState::ours;
};

struct ReviewedChain {
  plan::TableKey table;
  std::string name;
  std::optional<ipset::Verdict> policy;    // of a built-in chain
  bool foreign = false;                    // in our table of nf_tables, and not ours
  std::optional<netlink::NftBase> base;    // of a chain of nf_tables that the kernel calls
  std::optional<netlink::NftBase> wanted;  // how the kernel should call it, if it does not
  bool dormant = false;                    // the kernel does not call it: its table is dormant
  std::vector<ReviewedRule> rules;
};

// In the order in which a packet meets them: first our table of nf_tables, then iptables. Each
// chain that the kernel calls, of iptables with the rules alone that lead to ours, is followed by
// our chains to which its rules jump; at the end are our other chains, and in our table of
// nf_tables the chains of other programs.
std::vector<ReviewedChain> review_rules(const RuleReading& reading, const RuleChoice& choice);

// Sets of others in our tables: IPv4 first, by name.
std::vector<ForeignSet> foreign_sets(const RuleReading& reading);

}  // namespace ipvsproxier::ctl
