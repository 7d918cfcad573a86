#pragma once

// What ipvs-proxier would do to this network namespace's kernel now, by the same reconciler on
// tables that write nothing. Blocks. One thread.

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
  // What the virtual services of the steps expose: "shop/web:http/TCP, cluster IP".
  std::map<netlink::VirtualServiceKey, std::string> names;
  std::vector<std::string> notes;  // what was not looked at
  bool complete = true;            // false: something could not be read; the log says what
};

// `malformed`: the configuration does not fit this node; the log says why.
netlink::Result<Rehearsed> rehearse(const Wanted& wanted, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
