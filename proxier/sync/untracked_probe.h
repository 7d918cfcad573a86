#pragma once

// UntrackedProbe: which ports of addresses on links of others rules keep from connection tracking
// (ipset/nft/untracked_ports.h). Looks with each reading of the whole kernel, and as soon as these
// addresses change: a program that listens there writes its rules before it adds its addresses.
// Sync thread only. Logs.

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "ipset/nft/untracked_ports.h"
#include "netlink/result.h"
#include "proxier/plan/node_info.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/failed_look.h"

namespace ipvsproxier::sync {

// Takes `longest` at most, for each packet filter.
using FindUntrackedPorts = std::function<netlink::Result<ipset::UntrackedLook>(
    const std::set<netlink::IpAddress>&, std::chrono::milliseconds longest)>;

class UntrackedProbe {
 public:
  // Steps bound a look as well (LookBudget), some 50 ms: this is for a machine that is slower. What
  // is not judged is IPVS's, so that the program gets no packets.
  static constexpr std::chrono::milliseconds kLongestLook{1000};

  // An empty `find`: there is nothing to find.
  UntrackedProbe(FindUntrackedPorts find, spdlog::logger& logger)
      : find_(std::move(find)), logger_(logger) {}

  // Sets NodeInfo::untracked. `anew`: also if the addresses are those of the last look. Tables that
  // were not judged leave what was found before.
  void look(plan::NodeInfo& node, bool anew);

 private:
  FindUntrackedPorts find_;
  spdlog::logger& logger_;
  FailedLook failed_look_{"rules before connection tracking", logger_};
  std::set<netlink::IpAddress> addresses_;
  std::vector<ipset::UntrackedPorts> found_;
  std::map<std::string, std::string> unjudged_;
};

}  // namespace ipvsproxier::sync
