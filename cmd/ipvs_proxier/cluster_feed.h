#pragma once

// ClusterFeed: passes the objects of a source to the sync thread's mailbox and to the servers. Logs
// if the Node lacks something that programming needs. Main thread only.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/ipvs_proxier/servers.h"
#include "cmd/node_check.h"
#include "cmd/options.h"
#include "proxier/loop/line_limit.h"
#include "proxier/loop/mailbox.h"
#include "proxier/sync/sync_input.h"

namespace ipvsproxier::cmd {

using SyncMail = loop::Mailbox<sync::SyncInput>;

class ClusterFeed {
 public:
  // `families`: those that this host can proxy. If the configuration does not fit the Node in the
  // first lists, or the Node's new pod CIDRs need a restart (PodCidrs), `on_misfit` is called and
  // nothing is passed on. The other arguments must outlive this.
  ClusterFeed(const Options& options, std::vector<netlink::Family> families, loop::Timers& timers,
              SyncMail& mail, Servers& servers, spdlog::logger& logger,
              std::function<void()> on_misfit)
      : options_(options),
        families_(std::move(families)),
        mail_(mail),
        servers_(servers),
        logger_(logger),
        on_misfit_(std::move(on_misfit)),
        pod_cidrs_(options, timers, logger, [this] { on_misfit_(); }) {}

  // Without Changes::complete the source has not reported everything yet, and nothing is programmed
  // before. `others`: Nodes that the source has, if not this node's own.
  void take(model::Changes changes, const std::vector<api::Node>& others = {});
  // The API server is reached by these.
  void take_api_server(std::set<netlink::IpAddress> addresses);

 private:
  void take_node(model::Changes& changes);
  void tell_missing_node(const std::vector<api::Node>& others);

  const Options& options_;
  const std::vector<netlink::Family> families_;
  SyncMail& mail_;
  Servers& servers_;
  spdlog::logger& logger_;
  std::function<void()> on_misfit_;
  loop::LineLimit limit_{logger_};
  std::optional<api::Node> node_;
  bool started_ = false;         // there was something to program
  std::set<std::string> alike_;  // names of nodes, while there is no Node of this one's name
  std::string no_node_;          // what was said of that; "": there is one
  PodCidrs pod_cidrs_;
};

}  // namespace ipvsproxier::cmd
