// API server -> objects -> cluster feed

#include <functional>
#include <memory>
#include <random>
#include <utility>

#include "cmd/object_feed.h"
#include "proxier/watch/api_source.h"
#include "proxier/watch/credentials.h"
#include "proxier/watch/curl_transport.h"

namespace ipvsproxier::cmd {

namespace {

// In [0, 1): so that many nodes do not ask at the same moment.
std::function<double()> dice() {
  // One for all, who copy the function.
  return [random = std::make_shared<std::mt19937>(std::random_device()())] {
    return std::generate_canonical<double, 32>(*random);
  };
}

class ApiFeed final : public ObjectFeed {
 public:
  ApiFeed(const Options& options, watch::AccessSource access, loop::MainLoop& loop,
          ClusterFeed& cluster, Servers& servers, spdlog::logger& logger)
      : cluster_(cluster),
        credentials_(loop, std::move(access), logger),
        transport_(loop, credentials_),
        source_(options.node_name, transport_, loop, dice(), logger,
                [this](watch::ApiUpdate update) { take(std::move(update)); }) {
    servers.watch([this] { return source_.status(); });
  }

  void start() override { source_.start(); }

 private:
  void take(watch::ApiUpdate update) {
    const auto complete = update.complete ? std::optional(true) : std::nullopt;
    cluster_.take(std::move(update.changed), update.deleted, complete);
  }

  ClusterFeed& cluster_;
  watch::Credentials credentials_;
  watch::CurlTransport transport_;
  watch::ApiSource source_;
};

}  // namespace

std::unique_ptr<ObjectFeed> follow_api(const Options& options, watch::AccessSource access,
                                       loop::MainLoop& loop, ClusterFeed& cluster, Servers& servers,
                                       spdlog::logger& logger) {
  return std::make_unique<ApiFeed>(options, std::move(access), loop, cluster, servers, logger);
}

}  // namespace ipvsproxier::cmd
