#pragma once

// Chains of nf_tables as libnftables lists them, and which of them drop packets of Services. Pure;
// any thread.
//
// An accept ends one base chain only: the packet goes on to the hook's other base chains, and each
// of them can still drop it. Therefore a packet that an nf_tables chain drops by policy cannot be
// let through by a rule of the legacy tables, or of another nf_tables chain.

#include <string>
#include <string_view>
#include <vector>

namespace ipvsproxier::ipset {

struct NftChain {
  std::string family;  // "ip", "ip6", "inet"
  std::string table;
  std::string name;
  std::string hook;    // "forward"; "" for a chain without a hook
  bool drops = false;  // its policy is drop
  // A rule of it drops or rejects whatever reaches it; not in the list of chains.
  bool drops_by_rule = false;

  friend bool operator==(const NftChain&, const NftChain&) = default;
};

// Parses the output of "list chains FAMILY".
std::vector<NftChain> read_nft_chains(std::string_view text);

// Whether packets of Services pass the chain's hook.
bool is_passed_by_services(const NftChain& chain);

// Whether the chain drops packets of Services, by its policy or by a rule without a condition,
// unless rules of its own accept them before.
bool drops_services(const NftChain& chain);

// The warning for a chain that drops_services(), with the rule to add.
std::string dropping_warning(const NftChain& chain);

// Whether `chain`, which kube-proxy wrote through iptables-nft, must stay because it accepts
// packets that a built-in chain of its table drops by policy. Such chains do not become outdated:
// they accept by mark, by connection state, or by the set of health-check ports, which we keep.
bool accepts_what_drops(const NftChain& chain, const std::vector<NftChain>& chains);

}  // namespace ipvsproxier::ipset
