#pragma once

// TakeOver: the change from kube-proxy's iptables or nftables mode to this daemon, including rules
// that any mode of kube-proxy wrote through iptables-nft, the change from kube-router's service
// proxy, and the change between our packet filters; once per process. Sync thread only. Logs.
//
// Both modes translate destinations before IPVS would see a packet. They therefore go on serving
// while our state is built after them, and their removal is the switch. Only then our rules of
// nf_tables settle destinations (Reconciler::settle_destinations), which they do before theirs.
// Connections that they translated live on in conntrack. Each family switches by itself: a family
// that cannot be programmed keeps its old rules.
//
// Sets and rules in the other packet filter, of an earlier process or of kube-proxy's IPVS mode,
// are obeyed together with ours until they go: what they do not know yet, such as a new port of an
// old address, is refused until then.

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "ipset/rules/packet_filter.h"
#include "ipset/rules/rule_table.h"
#include "ipset/rules/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

// Removes kube-proxy's leftovers in nf_tables of a family; see ipset/nft/nft_leftovers.h.
using RemoveNftLeftovers = std::function<netlink::Result<ipset::RemovedNft>(netlink::Family)>;

// Whether rules of kube-proxy's iptables or nftables mode translate destinations in a family.
using FindTranslation = std::function<netlink::Result<bool>(netlink::Family)>;

// What goes of our rules in the packet filter that is not used, in this order.
std::vector<ipset::RuleRemoval> removals_from(ipset::PacketFilter other, netlink::Family family);

class TakeOver {
 public:
  // An empty `remove_nft_leftovers`: nothing to remove in nf_tables. `ip_sets`: from which sets of
  // earlier builds are removed; nullptr: there are no IP sets. `kube_router`: what its service
  // proxy left in IP sets and in legacy iptables is removed as well.
  TakeOver(ipset::RuleTable& rules, std::optional<OtherFilter> other,
           RemoveNftLeftovers remove_nft_leftovers, spdlog::logger& logger,
           ipset::SetTable* ip_sets = nullptr, bool kube_router = false);

  // Whether there are leftovers to remove, or nobody has looked yet.
  bool pending() const { return !pending_.empty(); }
  bool pending(netlink::Family family) const { return pending_.contains(family); }

  // Nothing tries again what fails from now on, which the log then says.
  void begin_last() { next_ = "not tried again"; }

  // Call before the first write: moves the chain of iptables mode aside whose name we need.
  void begin();

  // Call as soon as our state is in place: removes the other modes' leftovers of this family. After
  // a failure the family stays pending.
  void finish(netlink::Family family);

 private:
  struct Removed;
  bool remove_rules(netlink::Family family, Removed& removed);
  bool remove_other(netlink::Family family);
  bool remove_sets(netlink::Family family, std::size_t& count);
  bool remove_nft(netlink::Family family);
  bool remove_kube_router(netlink::Family family);
  bool remove_earlier_sets(netlink::Family family);
  void tell_once(const std::string& warning);

  ipset::RuleTable& rules_;
  std::optional<OtherFilter> other_;
  RemoveNftLeftovers remove_nft_leftovers_;
  spdlog::logger& logger_;
  ipset::SetTable* ip_sets_;
  bool kube_router_;
  std::set<std::string> told_;
  bool begun_ = false;
  const char* next_ = "trying again with the next reading of the kernel";  // after a failure
  std::set<netlink::Family> pending_{netlink::kFamilies.begin(), netlink::kFamilies.end()};
};

}  // namespace ipvsproxier::sync
