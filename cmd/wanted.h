#pragma once

// Wanted: what ipvs-proxier is asked to make of this node, for ipvsctl to compare with the kernel:
// its options and the cluster's objects, from a daemon that runs or as one would get them that is
// started now. Blocks. One thread.

#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/control_client.h"
#include "cmd/options.h"
#include "netlink/result.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::cmd {

struct Wanted {
  Options options;
  model::Changes objects;  // complete
};

// Of the daemon: with its options, from the objects that it holds.
netlink::Result<Wanted> wanted_of_daemon(ControlClient& daemon);

// Of a daemon with these flags: `arguments` are its own, besides a `kubeconfig` that counts more
// than the configuration's ("": none). Objects come from --manifests or from the API server, which
// has `kPatience` to answer. What is wrong with them is logged; `malformed` where that is too much.
netlink::Result<Wanted> wanted_of_flags(const std::vector<std::string>& arguments,
                                        const std::string& kubeconfig, spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
