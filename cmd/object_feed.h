#pragma once

// ObjectFeed: a source of the cluster's objects, wired to the cluster feed. The main thread's.

#include <memory>

#include <spdlog/logger.h>

#include "cmd/api_client.h"
#include "cmd/cluster_feed.h"
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
  // The first lists asked for the removal of most of what the kernel holds: everything is to be
  // listed again, one wait later.
  virtual void doubt_first_lists() {}
};

// Of --manifests; the first reading is done by start(). All outlive it.
std::unique_ptr<ObjectFeed> follow_manifests(const Options& options, loop::MainLoop& loop,
                                             ClusterFeed& cluster, spdlog::logger& logger);

// Of the API server. All outlive it.
std::unique_ptr<ObjectFeed> follow_api(const Options& options, ApiClient& client,
                                       loop::MainLoop& loop, ClusterFeed& cluster, Servers& servers,
                                       spdlog::logger& logger);

}  // namespace ipvsproxier::cmd
