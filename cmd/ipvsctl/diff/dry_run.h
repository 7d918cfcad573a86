#pragma once

// A dry run: what ipvs-proxier would do to this network namespace now. It reads the kernel, plans,
// and takes the steps of the transactions, of which none is applied. Blocks. One thread.

#include <map>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/ipvsctl/diff/plan_input.h"
#include "cmd/ipvsctl/diff/transaction_steps.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

struct DryRun {
  std::vector<Step> steps;  // in the order in which they would be done
  // Names of the virtual services in the steps: "shop/web:http/TCP, cluster IP".
  std::map<netlink::VirtualServiceKey, std::string> names;
  std::vector<std::string> notes;  // parts that were not compared
  std::vector<std::string> wrong;  // what a running daemon cannot do of what was asked for
  bool complete = true;            // false: a part could not be read; see the log
};

// `malformed`: the configuration does not fit this node; see the log.
netlink::Result<DryRun> dry_run(const PlanInput& input, spdlog::logger& logger);

}  // namespace ipvsproxier::ctl
