#pragma once

// Compares the rules of this host with our catalogue (ipset/rules/rule_catalog.h, nft_catalog.h),
// chain by chain in the order in which a packet meets them. Pure, any thread.
//
// The catalogue has parameters. Whether a set has elements is read. The options (mark, detection of
// local traffic, masquerade-all, ping) are guessed: those with the fewest differences. The virtual
// services that exclude this node are taken from the existing rules.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ipset/nftables/filter_table.h"
#include "ipset/rules/rule_types.h"
#include "proxier/plan/actual_state.h"

namespace ipvsproxier::ctl {

struct RuleReading {
  std::map<plan::TableKey, ipset::WholeTable> tables;  // existing tables
  std::map<std::string, std::size_t> sets;             // number of elements of each set
  // Our tables of nf_tables with everything in them. With one of them our rules are in nf_tables,
  // and what the tables of iptables have of ours is left over.
  std::map<netlink::Family, ipset::FilterContents> nft;
  // Families in which kube-proxy's rules translate destinations: ours settle them later.
  std::set<netlink::Family> translated;
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
  missing,
  missing_unsure,  // missing; with other options another rule would stand there
  misplaced,       // ours, but at the wrong position, or repeated
  foreign,         // in or leading to a chain of ours, but not ours
  leftover,        // in iptables while our rules are in nf_tables
  not_judged,      // in a chain of another program
};

bool is_there(RuleState state);

struct ReviewedRule {
  ipset::Rule rule;
  std::optional<ipset::RuleCount> count;  // of an existing rule that counts
  RuleState state = RuleState::ours;
};

struct ReviewedChain {
  plan::TableKey table;
  std::string name;
  std::optional<ipset::Verdict> policy;  // of a built-in chain
  bool missing = false;
  bool foreign = false;                    // in our table of nf_tables, and not ours
  std::optional<netlink::NftBase> base;    // of a chain of nf_tables that the kernel calls
  std::optional<netlink::NftBase> wanted;  // how the kernel should call it, if it does not
  bool dormant = false;                    // the kernel does not call it: its table is dormant
  bool reached = true;                     // an existing rule leads to it
  std::vector<ReviewedRule> rules;
};

// With nf_tables first that table: each chain that the kernel calls in the order in which a packet
// meets them, after it those to which its rules and maps lead; at the end those of others.
//
// With iptables: each built-in chain that leads to our chains, with these jumps; after it these
// chains, each once, where a packet first meets them; at the end the unreached ones. A table
// without anything of ours has no chains.
std::vector<ReviewedChain> review_rules(const RuleReading& reading, const RuleChoice& choice);

}  // namespace ipvsproxier::ctl
