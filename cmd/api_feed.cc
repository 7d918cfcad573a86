// API server -> objects -> cluster feed

#include <memory>
#include <utility>

#include "cmd/object_feed.h"
#include "proxier/watch/api_source.h"

namespace ipvsproxier::cmd {

namespace {

class ApiFeed final : public ObjectFeed {
 public:
  ApiFeed(const Options& options, ApiClient& client, loop::MainLoop& loop, ClusterFeed& cluster,
          Servers& servers, spdlog::logger& logger)
      : cluster_(cluster),
        source_(options.node_name, client.transport, loop, client.random, logger,
                [this](watch::ApiUpdate update) { take(std::move(update)); }) {
    servers.watch([this] { return source_.status(); });
  }

  void start() override { source_.start(); }

 private:
  void take(watch::ApiUpdate update) {
    const auto complete = update.complete ? std::optional(true) : std::nullopt;
    cluster_.take(std::move(update.changed), update.deleted, complete,
                  std::move(update.unreadable));
  }

  ClusterFeed& cluster_;
  watch::ApiSource source_;
};

}  // namespace

std::unique_ptr<ObjectFeed> follow_api(const Options& options, ApiClient& client,
                                       loop::MainLoop& loop, ClusterFeed& cluster, Servers& servers,
                                       spdlog::logger& logger) {
  return std::make_unique<ApiFeed>(options, client, loop, cluster, servers, logger);
}

}  // namespace ipvsproxier::cmd
