#pragma once

// HostileNode: a node whose daemon follows the test API server with a random cluster, to which
// hostile objects come and from which they go. What is held of all others, of what the daemon says
// and of what it costs is answered in words: "" is all right.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proxier/model/cluster_state.h"
#include "test/kernel/daemon.h"
#include "test/kernel/manifests.h"
#include "test/kernel/netns.h"
#include "test/kernel/random_node.h"
#include "test/support/api_server/api_server.h"
#include "test/support/hostile_objects.h"
#include "test/support/random_cluster.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

class HostileNode {
 public:
  // The daemon runs and has programmed the cluster, or the case fails.
  HostileNode(std::uint32_t seed, int services);

  ApiServer& server() { return *server_; }
  Daemon& daemon() { return daemon_; }
  const model::ClusterState& cluster() const { return cluster_; }
  Victims victims() const;

  // --- what comes and goes
  void put(const HostileObject& object);
  void put(const std::vector<HostileCase>& cases);
  void remove(const std::vector<HostileCase>& cases);
  void put_node(const std::string& json) { put_text(json); }
  // Something of the cluster is another now; what a fresh run makes of it is what is expected.
  void change_cluster();
  void put_ordinary(const api::EndpointSlice& slice);

  // --- what is held
  // All that the cluster asks for is in the kernel, soon; or, `alone`, exactly that.
  std::string wrong_in_kernel(bool alone);
  // At this moment.
  std::string missing_in_kernel();
  std::string wrong_health();
  // Each fifth listing of ipvsctl, as text, JSON or YAML, from the one of this number on; also
  // about this Service.
  static constexpr std::size_t kListingParts = 5;
  std::string wrong_listings(std::size_t first, const HostileObject& service);
  std::string wrong_metrics();
  std::string wrong_events();
  // Since the last look: each line is one of ours, nothing raw is in them, and not too many.
  std::string wrong_log();
  // Since the last look: nothing was listed.
  std::string wrong_requests();

  // Of the daemon, in ticks of 10 ms.
  long processor_ticks() const;

 private:
  void put_text(const std::string& json);
  std::string listing(const std::string& words, bool json);

  RandomCluster random_;
  model::ClusterState cluster_;
  Netns netns_;
  Manifests manifests_;
  TempDir dir_;
  std::unique_ptr<ApiServer> server_;
  ServedObjects served_;
  std::vector<std::string> expected_;
  std::size_t log_seen_ = 0;
  Daemon daemon_;
};

}  // namespace ipvsproxier::test
