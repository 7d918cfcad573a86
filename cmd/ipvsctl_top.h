#pragma once

// `ipvsctl top`: what goes through virtual services and real servers now: on a terminal as a screen
// that lives and obeys keys, elsewhere as one table after another. One thread.

#include <cstddef>
#include <string>

#include "netlink/result.h"
#include "proxier/inspect/listing.h"
#include "proxier/inspect/top_view.h"

namespace ipvsproxier::cmd {

struct TopOptions {
  inspect::TopView view;
  std::string socket;     // of the daemon, for names; "": none wanted
  std::size_t count = 0;  // tables to print, without a screen; 0: a screen, or tables without end
};

// Reads the network namespace of the calling thread until the view is over, the tables are printed
// or something fails: the error is the kernel's or the sink's. A signal that ended the screen ends
// the process as it would have without one.
netlink::Status run_top(const TopOptions& options, const inspect::TextSink& sink);

}  // namespace ipvsproxier::cmd
