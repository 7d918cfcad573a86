#pragma once

// TakeOver: the change from kube-proxy's iptables or nftables mode to ours, and from rules of any
// mode that it wrote through iptables-nft, once per process. Sync thread only. Logs.
//
// Both modes translate destinations before IPVS would see a packet, so they go on serving while
// ours is built behind them; taking them away is what switches. Connections that they translated
// live in conntrack and go on. Of each family by itself, so that one which cannot be programmed
// keeps what serves it.

#include <functional>
#include <set>
#include <string>

#include <spdlog/logger.h>

#include "ipset/rule_table.h"
#include "ipset/rule_types.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::sync {

// Removes what kube-proxy left in nf_tables of a family; see ipset/nft_tables.h.
using RemoveNftLeftovers = std::function<netlink::Result<ipset::RemovedNft>(netlink::Family)>;

class TakeOver {
 public:
  // An empty `remove_nft_leftovers`: there are none.
  TakeOver(ipset::RuleTable& rules, RemoveNftLeftovers remove_nft_leftovers,
           spdlog::logger& logger);

  // There is still something to take over, or nobody looked yet.
  bool pending() const { return !pending_.empty(); }
  bool pending(netlink::Family family) const { return pending_.contains(family); }

  // Before the first writing. The chain of iptables mode whose name we need is set aside.
  void begin();

  // As soon as ours is in place: removes what the other modes left of this family. What fails
  // leaves it pending.
  void finish(netlink::Family family);

 private:
  struct Removed;
  bool remove_rules(netlink::Family family, Removed& removed);
  bool remove_nft(netlink::Family family);
  void tell_once(const std::string& warning);

  ipset::RuleTable& rules_;
  RemoveNftLeftovers remove_nft_leftovers_;
  spdlog::logger& logger_;
  std::set<std::string> told_;
  bool begun_ = false;
  std::set<netlink::Family> pending_{netlink::kFamilies.begin(), netlink::kFamilies.end()};
};

}  // namespace ipvsproxier::sync
