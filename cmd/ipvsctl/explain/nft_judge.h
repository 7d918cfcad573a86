#pragma once

// Carries out a rule of nf_tables for a packet, expression by expression with registers, as the
// kernel does (nft_do_chain() in net/netfilter/nf_tables_core.c, 6.1). Pure except for `is_local`;
// any thread.
//
// What is not known of the packet (its length, its time to live, a source port) is not known bit by
// bit, so that a rule may be decided all the same.

#include <string>
#include <vector>

#include "cmd/ipvsctl/explain/packet.h"
#include "cmd/ipvsctl/explain/rule_judge.h"

namespace ipvsproxier::ctl {

struct NftOutcome {
  // `no`: the rule does not match, or does nothing that matters; `unknown`: if it matches cannot be
  // judged, or not what it then does.
  Answer answer = Answer::no;
  std::vector<ipset::Action> effects;     // marks and tracking, in order, with Answer::yes
  ipset::Action end = ipset::NoAction{};  // what becomes of the packet behind them
  std::string found;  // elements that matched: "inet host blocked has 192.0.2.1"
};

// `table`: "inet host".
NftOutcome judge_nft(const std::vector<ipset::NftStep>& steps, const std::string& table,
                     const NodeReading& node, const Packet& packet, const IsLocal& is_local);

}  // namespace ipvsproxier::ctl
