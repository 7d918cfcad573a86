#pragma once

// LocalhostLoop: keeps the links and routes by which node ports on localhost travel
// (ipset/rules/localhost_rules.h), and removes those of an earlier process. Sync thread only. Logs.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "netlink/ip_address.h"
#include "netlink/links/loop_types.h"
#include "proxier/plan/planner.h"
#include "proxier/sync/kernel.h"

namespace ipvsproxier::sync {

class LocalhostLoop {
 public:
  LocalhostLoop(const plan::PlannerOptions& options, spdlog::logger& logger);

  struct Kept {
    std::map<netlink::Family, std::string> lacking;  // NodeInfo::no_localhost
    std::vector<std::string> written;                // or would have been, of a dry run
    std::vector<Failure> failures;                   // nothing was learnt
  };
  // Makes the loop right, if node ports shall be on localhost.
  Kept keep(Kernel& kernel, bool dry);

  // If they shall not be, and no rule leads there any more: removes what an earlier process left.
  // Returns the number of removed links.
  std::size_t leave(netlink::LinkTable& links, std::vector<Failure>& failures);

 private:
  bool wanted_;
  netlink::LoopSpec spec_;
  spdlog::logger& logger_;
  bool left_ = false;                               // nothing of an earlier process is there
  bool made_ = false;                               // it was right once
  std::map<netlink::Family, std::string> lacking_;  // the last answer
};

}  // namespace ipvsproxier::sync
