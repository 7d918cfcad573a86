#pragma once

// PlanInput: the options and the cluster's objects of an ipvs-proxier, which `ipvsctl diff` and
// `ipvsctl plan` compare with the kernel: those of a running daemon, or those that a daemon with
// given flags would have. Blocks. One thread.

#include <optional>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/ipvsctl/control_client.h"
#include "cmd/options.h"
#include "netlink/result.h"
#include "proxier/model/changes.h"

namespace ipvsproxier::ctl {

struct PlanInput {
  cmd::Options options;
  model::Changes objects;  // complete
};

// The options of a running daemon; `missing`: none runs.
netlink::Result<cmd::Options> options_of_daemon(ControlClient& daemon);
// Those of one with these flags; `malformed`: they are wrong.
netlink::Result<cmd::Options> options_of_flags(const std::vector<std::string>& arguments);

// The Node that it holds; nullopt: none.
netlink::Result<std::optional<api::Node>> node_of_daemon(ControlClient& daemon);

// From the daemon: its options and the objects that it holds.
netlink::Result<PlanInput> input_of_daemon(ControlClient& daemon);

// For a daemon with these flags. `kubeconfig`, unless "", overrides the configuration's. Objects
// come from --manifests or from the API server, which must answer within `kPatience`. Problems are
// logged; `malformed` if they prevent a plan.
netlink::Result<PlanInput> input_of_flags(const std::vector<std::string>& arguments,
                                          const std::string& kubeconfig, spdlog::logger& logger);

}  // namespace ipvsproxier::ctl
