#pragma once

// HostileNode: a node whose daemon follows the test API server with a random cluster, to which
// hostile objects come and from which they go. What is held of all others, of what the daemon says
// and of what it costs is answered in words: "" is all right.

#include <cstdint>
#include <memory>
#include <optional>
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
  // How long it takes until the kernel has another real server of an ordinary Service; nullopt:
  // longer than kMostChanging. Expected of the kernel after the next change_cluster().
  static constexpr int kMostChanging = 30'000;  // ms
  std::optional<double> seconds_of_change();

  // --- what is held
  // All that the cluster asks for is in the kernel, soon; or, `alone`, exactly that.
  std::string wrong_in_kernel(bool alone);
  // At this moment.
  static std::string lasting_part(const std::string& line);
  std::string missing_in_kernel();
  std::string wrong_health();
  // Each third listing of ipvsctl, as text, JSON or YAML, from the one of this number on; also
  // about a Service of one of these cases, another each time, and about those with hostile names.
  static constexpr std::size_t kListingParts = 3;
  std::string wrong_listings(std::size_t first, const std::vector<HostileCase>& cases);
  std::string wrong_metrics();
  // Since the last look: not too many, nothing raw. There is one about each Service that asks for a
  // health check port of the daemon (others_addresses).
  std::string wrong_events(const std::vector<HostileCase>& cases);
  // Since the last look: each line is one of ours, nothing raw is in them, and not too many.
  std::string wrong_log();
  // Since the last look: nothing was listed.
  std::string wrong_requests();

  // Of the daemon, in ticks of 10 ms.
  long processor_ticks() const;

 private:
  void put_text(const std::string& json);
  ServedObjects now_served() const;
  std::string listing(const std::string& words);

  RandomCluster random_;
  model::ClusterState cluster_;
  Netns netns_;
  Manifests manifests_;
  TempDir dir_;
  std::unique_ptr<ApiServer> server_;
  ServedObjects served_;
  std::vector<std::string> expected_;
  int changes_ = 0;  // of the ordinary Service
  std::size_t log_seen_ = 0;
  std::size_t events_seen_ = 0;
  Daemon daemon_;
};

}  // namespace ipvsproxier::test
