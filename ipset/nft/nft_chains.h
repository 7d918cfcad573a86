#pragma once

// Chains of nf_tables as libnftables lists them, and which of kube-proxy's must stay. Pure; any
// thread.

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

  friend bool operator==(const NftChain&, const NftChain&) = default;
};

// Parses the output of "list chains FAMILY".
std::vector<NftChain> read_nft_chains(std::string_view text);

// Whether `chain`, which kube-proxy wrote through iptables-nft, must stay because it accepts
// packets that a built-in chain of its table drops by policy. Such chains do not become outdated:
// they accept by mark, by connection state, or by the set of health-check ports, which we keep.
bool accepts_what_drops(const NftChain& chain, const std::vector<NftChain>& chains);

}  // namespace ipvsproxier::ipset
