#include "ipset/nft/nft_chains.h"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>

namespace ipvsproxier::ipset {

namespace {

struct Accepting {
  std::string_view hook;
  std::string_view chain;  // of kube-proxy
};
// KUBE-NODE-PORT belongs to ipvs mode, KUBE-NODEPORTS to iptables mode.
constexpr std::array<Accepting, 3> kAccepting = {
    {{"forward", "KUBE-FORWARD"}, {"input", "KUBE-NODE-PORT"}, {"input", "KUBE-NODEPORTS"}}};

struct Need {
  std::string_view hook;
  std::string_view what;
  std::string_view rule;
};
constexpr std::array<Need, 3> kNeeds = {
    {{"input", "what goes to Service addresses and node ports",
      "ip daddr { SERVICE ADDRESSES } accept"},
     {"forward", "the answers of pods", "ct state established,related accept"},
     {"output", "what IPVS sends to pods", "ct state new,established,related accept"}}};

const Need* need_of(const std::string& hook) {
  const auto* const found = std::ranges::find(kNeeds, hook, &Need::hook);
  return found == kNeeds.end() ? nullptr : found;
}

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
    if (first == "chain") chains.push_back({family, table, second, "", false, false});
    if (first == "type" && third == "hook" && !chains.empty()) {
      chains.back().hook = fourth;
      chains.back().drops = line.find("policy drop;") != std::string::npos;
    }
  }
  return chains;
}

bool is_passed_by_services(const NftChain& chain) {
  return need_of(chain.hook) != nullptr;
}

bool drops_services(const NftChain& chain) {
  return (chain.drops || chain.drops_by_rule) && is_passed_by_services(chain);
}

std::string dropping_warning(const NftChain& chain) {
  const auto* const need = need_of(chain.hook);
  if (need == nullptr) return "";
  auto rule = std::string(need->rule);
  if (chain.family == "ip6" && rule.starts_with("ip ")) rule.replace(0, 2, "ip6");
  const auto place = fmt::format("{} {} {}", chain.family, chain.table, chain.name);
  return fmt::format(
      "nf_tables chain {} {}, and no rule of ours or of another chain lets through "
      "what it drops: unless rules of its own accept {}, Services do not work; add them, as in: "
      "nft insert rule {} {}",
      place, chain.drops ? "drops by policy" : "has a rule without a condition that drops",
      need->what, place, rule);
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
