#include "cmd/ipvs_proxier/cluster_feed.h"

#include <utility>

#include <fmt/format.h>

#include "cmd/alike_nodes.h"

namespace ipvsproxier::cmd {

void ClusterFeed::take(model::Changes changes, const std::vector<api::Node>& others) {
  take_node(changes);
  if (!node_) note_alike_names(options_.node_name, changes, alike_);
  // `complete` is what starts the programming.
  const auto complete = std::exchange(changes.complete, std::nullopt);
  if (complete || started_) tell_missing_node(others);
  const auto cidrs = complete ? pod_cidrs_.see(node_) : PodCidrs::Verdict::wait;
  if (cidrs == PodCidrs::Verdict::end) return on_misfit_();
  if (cidrs == PodCidrs::Verdict::keep_old) changes.node.reset();
  if (cidrs != PodCidrs::Verdict::wait) {
    if (!started_ && !fits_node(options_, families_, node_, logger_)) return on_misfit_();
    changes.complete = complete;
    started_ = true;
  }
  servers_.note(changes, node_, options_.manifests.empty());
  mail_.put(sync::SyncInput{.changes = std::move(changes)});
}

void ClusterFeed::take_api_server(std::set<netlink::IpAddress> addresses) {
  sync::SyncInput input;
  input.api_server = std::move(addresses);
  mail_.put(std::move(input));
}

// An API server's Node stays in force when it is deleted.
void ClusterFeed::take_node(model::Changes& changes) {
  if (!changes.node) return;
  if (!*changes.node && options_.manifests.empty()) {
    limit_.log(spdlog::level::info,
               fmt::format("API server: Node {} was deleted; what was known of it stays in force",
                           options_.node_name),
               loop::Timers::Clock::now());
    changes.node.reset();
    return;
  }
  node_ = *changes.node;
}

void ClusterFeed::tell_missing_node(const std::vector<api::Node>& others) {
  const auto before =
      std::exchange(no_node_, node_ ? std::string() : no_node_text(options_, others, alike_));
  servers_.metrics().node_known(no_node_.empty());
  if (no_node_ == before) return;
  servers_.status().set_wrong(
      "node", no_node_.empty() ? std::vector<std::string>() : std::vector{no_node_});
  limit_.log(no_node_.empty() ? spdlog::level::info : spdlog::level::warn,
             no_node_.empty() ? fmt::format("Node {} is there", options_.node_name)
                              : no_node_ + "; going on without",
             loop::Timers::Clock::now());
}

}  // namespace ipvsproxier::cmd
