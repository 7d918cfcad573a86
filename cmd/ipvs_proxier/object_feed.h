#pragma once

// ObjectFeed: a source of the cluster's objects that feeds the ClusterFeed. Main thread only.

#include <memory>

#include <spdlog/logger.h>

#include "cmd/api_client.h"
#include "cmd/ipvs_proxier/cluster_feed.h"
#include "cmd/options.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::cmd {

class ObjectFeed {
 public:
  ObjectFeed() = default;
  ObjectFeed(const ObjectFeed&) = delete;
  ObjectFeed& operator=(const ObjectFeed&) = delete;
  virtual ~ObjectFeed() = default;

  virtual void start() = 0;
  // The first lists would remove most of the kernel's entries: list everything again after one
  // wait.
  virtual void doubt_first_lists() {}
};

// Objects of --manifests; start() reads them for the first time. All arguments must outlive the
// feed.
std::unique_ptr<ObjectFeed> follow_manifests(const Options& options, loop::MainLoop& loop,
                                             ClusterFeed& cluster, Servers& servers,
                                             spdlog::logger& logger);

// Objects of the API server. All arguments must outlive the feed.
std::unique_ptr<ObjectFeed> follow_api(const Options& options, ApiClient& client,
                                       loop::MainLoop& loop, ClusterFeed& cluster, Servers& servers,
                                       spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
