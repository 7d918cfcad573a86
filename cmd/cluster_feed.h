#pragma once

// ClusterFeed: what a source of objects tells -> the sync thread's mailbox, and the servers. Says
// what is missing for programming this node. The main thread's.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/node_check.h"
#include "cmd/options.h"
#include "cmd/servers.h"
#include "proxier/loop/mailbox.h"
#include "proxier/sync/sync_input.h"
#include "proxier/watch/manifest_set.h"

namespace ipvsproxier::cmd {

using SyncMail = loop::Mailbox<sync::SyncInput>;

class ClusterFeed {
 public:
  // `families`: those that this host can proxy. `on_misfit` is called, and nothing handed over,
  // when the configuration does not fit the Node that the first lists bring, or the Node cannot be
  // followed further (PodCidrs). The others outlive this.
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

  // `unreadable` as of model::Changes. `complete`: whether everything that exists is known by now.
  // nullopt: the source has not told everything yet; nothing is programmed before it did.
  // `listed_again` as of model::Changes.
  void take(std::vector<api::Object> changed, const std::vector<watch::DeletedObject>& deleted,
            std::optional<bool> complete,
            std::map<api::ObjectKey, std::optional<std::string>> unreadable = {},
            bool listed_again = false);

 private:
  void remove(const watch::DeletedObject& gone, model::Changes& changes);
  void tell_missing_node();

  const Options& options_;
  const std::vector<netlink::Family> families_;
  SyncMail& mail_;
  Servers& servers_;
  spdlog::logger& logger_;
  std::function<void()> on_misfit_;
  std::optional<api::Node> node_;
  bool started_ = false;  // there was something to program
  bool lacked_node_ = false;
  PodCidrs pod_cidrs_;
};

}  // namespace ipvsproxier::cmd
