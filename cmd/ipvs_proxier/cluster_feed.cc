#include "cmd/ipvs_proxier/cluster_feed.h"

#include <utility>

namespace ipvsproxier::cmd {

void ClusterFeed::take(std::vector<api::Object> changed, const std::vector<api::ObjectKey>& deleted,
                       std::optional<bool> complete,
                       std::map<api::ObjectKey, std::optional<std::string>> unreadable,
                       bool listed_again) {
  sync::SyncInput input;
  input.changes.listed_again = listed_again;
  input.changes.unreadable = std::move(unreadable);
  for (auto& object : changed) {
    if (const auto* node = std::get_if<api::Node>(&object)) node_ = *node;
    input.changes.put(std::move(object));
  }
  for (const auto& gone : deleted) remove(gone, input.changes);
  if (complete) tell_missing_node();
  const auto cidrs = complete ? pod_cidrs_.see(node_) : PodCidrs::Verdict::wait;
  if (cidrs == PodCidrs::Verdict::end) return on_misfit_();
  if (cidrs == PodCidrs::Verdict::keep_old) input.changes.node.reset();
  // Setting `complete` is what starts the programming.
  if (cidrs != PodCidrs::Verdict::wait) {
    if (!started_ && !fits_node(options_, families_, node_, logger_)) return on_misfit_();
    input.changes.complete = complete;
    started_ = true;
  }
  servers_.note(input.changes, node_, options_.manifests.empty());
  mail_.put(std::move(input));
}

void ClusterFeed::remove(const api::ObjectKey& gone, model::Changes& changes) {
  switch (gone.kind) {
    case api::ObjectKind::service:
      changes.services.insert_or_assign(gone.name, std::nullopt);
      return;
    case api::ObjectKind::endpoint_slice:
      changes.slices.insert_or_assign(gone.name, std::nullopt);
      return;
    case api::ObjectKind::node:
      if (options_.manifests.empty()) {
        logger_.info("API server: Node {} was deleted; what was known of it stays in force",
                     options_.node_name);
        return;
      }
      node_.reset();
      changes.node.emplace(std::nullopt);
      return;
  }
}

void ClusterFeed::tell_missing_node() {
  const bool lacks_node = !node_;
  if (lacks_node && !lacked_node_) log_no_node(options_, logger_);
  lacked_node_ = lacks_node;
}

}  // namespace ipvsproxier::cmd
