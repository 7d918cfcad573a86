#pragma once

// TakeOver: the change from kube-proxy's iptables or nftables mode to ours, once per process. Sync
// thread only. Logs.
//
// Both modes translate destinations before IPVS would see a packet, so they go on serving while
// ours is built behind them; taking them away is what switches. Connections that they translated
// live in conntrack and go on.

#include <functional>

#include <spdlog/logger.h>

#include "ipset/rule_table.h"
#include "netlink/ip_address.h"
#include "netlink/result.h"

namespace ipvsproxier::sync {

// Removes the table of nftables mode of a family; true if there was one.
using RemoveNftTable = std::function<netlink::Result<bool>(netlink::Family)>;

class TakeOver {
 public:
  // An empty `remove_nft_table`: there are none.
  TakeOver(ipset::RuleTable& rules, RemoveNftTable remove_nft_table, spdlog::logger& logger);

  // There is still something to take over, or nobody looked yet.
  bool pending() const { return pending_; }

  // Before the first writing. The chain of iptables mode whose name we need is set aside.
  void begin();

  // As soon as ours is in place: removes what the other modes left. What fails leaves it pending.
  void finish();

 private:
  struct Removed;
  bool remove_rules(netlink::Family family, Removed& removed);
  bool remove_nft(netlink::Family family);

  ipset::RuleTable& rules_;
  RemoveNftTable remove_nft_table_;
  spdlog::logger& logger_;
  bool begun_ = false;
  bool pending_ = true;
};

}  // namespace ipvsproxier::sync
