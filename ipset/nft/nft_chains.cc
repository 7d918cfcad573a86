#include "ipset/nft/nft_chains.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace ipvsproxier::ipset {

namespace {

struct Accepting {
  std::string_view hook;
  std::string_view chain;  // of kube-proxy
};
// KUBE-NODE-PORT belongs to ipvs mode, KUBE-NODEPORTS to iptables mode.
constexpr std::array<Accepting, 3> kAccepting = {
    {{"forward", "KUBE-FORWARD"}, {"input", "KUBE-NODE-PORT"}, {"input", "KUBE-NODEPORTS"}}};

}  // namespace

// The output of libnftables:
//   table ip nat {
//           chain PREROUTING {
//                   type nat hook prerouting priority dstnat; policy accept;
std::vector<NftChain> read_nft_chains(std::string_view text) {
  std::vector<NftChain> chains;
  std::istringstream lines{std::string(text)};
  std::string family;
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    std::string third;
    std::string fourth;
    words >> first >> second >> third >> fourth;
    if (first == "table") {
      family = second;
      table = third;
    }
    if (first == "chain") chains.push_back({family, table, second, "", false});
    if (first == "type" && third == "hook" && !chains.empty()) {
      chains.back().hook = fourth;
      chains.back().drops = line.find("policy drop;") != std::string::npos;
    }
  }
  return chains;
}

bool accepts_what_drops(const NftChain& chain, const std::vector<NftChain>& chains) {
  return std::ranges::any_of(chains, [&](const NftChain& base) {
    return base.drops && base.family == chain.family && base.table == chain.table &&
           std::ranges::any_of(kAccepting, [&](const Accepting& one) {
             return one.hook == base.hook && one.chain == chain.name;
           });
  });
}

}  // namespace ipvsproxier::ipset
