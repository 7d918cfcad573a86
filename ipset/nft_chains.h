#pragma once

// Chains of nf_tables as libnftables lists them, and what those mean for Services that drop by
// policy. Pure; any thread.
//
// An accept ends one base chain only: the packet goes on to the hook's other base chains, and what
// one of them drops is gone. So no rule of the legacy tables lets through what a chain of nf_tables
// drops by policy, and no rule of another chain of nf_tables does.

#include <string>
#include <string_view>
#include <vector>

namespace ipvsproxier::ipset {

struct NftChain {
  std::string family;  // "ip", "ip6", "inet"
  std::string table;
  std::string name;
  std::string hook;    // "forward"; "" for a chain that no hook calls
  bool drops = false;  // by policy

  friend bool operator==(const NftChain&, const NftChain&) = default;
};

// Of "list chains FAMILY".
std::vector<NftChain> read_nft_chains(std::string_view text);

// Whether it drops packets of Services that no rule of its own accepts.
bool drops_services(const NftChain& chain);

// For a chain that drops_services(): that it does, and the rule that it needs.
std::string dropping_warning(const NftChain& chain);

// Whether `chain`, one of those that kube-proxy wrote through iptables-nft, has to stay because it
// accepts what a built-in chain of its table drops by policy. Such chains are never out of date:
// they accept by mark, by state, or by the set of health-check ports, which we keep.
bool accepts_what_drops(const NftChain& chain, const std::vector<NftChain>& chains);

}  // namespace ipvsproxier::ipset
