#pragma once

// What is told of a chain that drops packets of Services or takes them elsewhere, with the rule
// that helps. Pure; any thread.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ipset/nft/host_firewall.h"
#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/nftables/nftables_types.h"

namespace ipvsproxier::ipset {

// What of Services passes a hook.
struct Passing {
  enum class What : std::uint8_t { comes, answers, is_sent, checks_health };
  netlink::NftHook hook;
  What what = What::comes;
  std::string_view legacy_chain;  // of the table filter
};

// What a chain does to the samples.
struct Judged {
  bool drops = false;
  bool by_policy = false;               // no rule drops the first of them
  std::vector<FirewallSample> dropped;  // or perhaps
  std::set<netlink::Family> families;   // of which any packet is
  bool whole = true;                    // else the budget ended before the samples

  bool empty() const { return dropped.empty() && families.empty(); }
};

// A chain of nf_tables, printable.
struct ChainName {
  std::string table;  // "inet host"
  std::string chain;
};

FirewallWarning nft_drop_warning(const ChainName& name, const Passing& passing,
                                 const Judged& judged);
FirewallWarning legacy_drop_warning(netlink::Family family, const Passing& passing,
                                    const std::vector<Rule>& chain, const Judged& judged);
// `filter` has our rules.
FirewallWarning take_warning(const ChainName& name, const Judged& judged, PacketFilter filter);

// Whether kube-proxy, kubelet or we make chains of this name: they drop nothing of Services.
// KUBE-FORWARD, which accepts what pods answer, is none of them. Others have names that begin with
// KUBE- as well (kube-router).
bool is_proxy_chain(std::string_view name);
inline constexpr std::string_view kForwardChain = "KUBE-FORWARD";

}  // namespace ipvsproxier::ipset
