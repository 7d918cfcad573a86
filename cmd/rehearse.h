#pragma once

// A dry run: what ipvs-proxier would do to this network namespace now, computed by the same
// reconciler on tables that write nothing. Blocks. One thread.

#include <map>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/wanted.h"
#include "netlink/result.h"
#include "proxier/sync/rehearsal.h"

namespace ipvsproxier::cmd {

struct Rehearsed {
  std::vector<sync::Step> steps;  // in the order in which they would be done
  // Names of the virtual services in the steps: "shop/web:http/TCP, cluster IP".
  std::map<netlink::VirtualServiceKey, std::string> names;
  std::vector<std::string> notes;  // parts that were not compared
  bool complete = true;            // false: a part could not be read; see the log
};

// `malformed`: the configuration does not fit this node; see the log.
netlink::Result<Rehearsed> rehearse(const Wanted& wanted, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
