#pragma once

// What --check asks about the cluster: whether the API server answers the daemon's questions, and
// what the first objects of its lists, or the manifests, show. Blocks until all is answered; main
// thread only.

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "proxier/check/facts.h"

namespace ipvsproxier::cmd {

// Fills in what is said of the API server, of this node's Node, and of addresses that Services ask
// for and other Nodes have.
void read_cluster(const Options& options, check::NodeFacts& facts, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
