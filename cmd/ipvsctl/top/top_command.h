#pragma once

// `ipvsctl top`: current traffic of virtual services and real servers: on a terminal as an
// interactive screen, otherwise as one table after another. One thread.

#include <cstddef>
#include <string>

#include "cmd/ipvsctl/listing/listing.h"
#include "cmd/ipvsctl/top/top_view.h"
#include "netlink/result.h"

namespace ipvsproxier::ctl {

struct TopOptions {
  TopView view;
  std::string socket;  // of the daemon, for names; "": without names
  // Number of tables to print without a screen; 0: a screen, or endless tables.
  std::size_t count = 0;
};

// Reads the network namespace of the calling thread until the view ends, the tables are printed or
// a failure: the error of the kernel or the sink. A signal that ended the screen then ends the
// process in the usual way.
netlink::Status run_top(const TopOptions& options, const TextSink& sink);

}  // namespace ipvsproxier::ctl
