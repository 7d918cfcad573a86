// Feeds objects of the API server to the ClusterFeed.

#include <memory>
#include <string>
#include <utility>

#include "cmd/ipvs_proxier/object_feed.h"
#include "proxier/access/server_addresses.h"
#include "proxier/watch/api_source.h"

namespace ipvsproxier::cmd {

namespace {

watch::RemovalBrake::Wait removal_wait(const Options& options) {
  if (!options.mass_removal_brake) return std::nullopt;
  return options.config.ipvs.sync_period;
}

class ApiFeed final : public ObjectFeed {
 public:
  ApiFeed(const Options& options, ApiClient& client, loop::MainLoop& loop, ClusterFeed& cluster,
          Servers& servers, spdlog::logger& logger)
      : loop_(loop),
        cluster_(cluster),
        transport_(client.transport),
        wait_(removal_wait(options)),
        addresses_(loop, [this](const auto& now) { cluster_.take_api_server(now); }),
        source_(options.node_name, client.transport, loop, client.random, wait_, logger,
                [this](model::Changes changes) { cluster_.take(std::move(changes)); }) {
    servers.watch([this] { return source_.status(); });
    transport_.on_answer([this](const std::string& server, const netlink::IpAddress& peer) {
      addresses_.answered(server, peer);
    });
  }
  ApiFeed(const ApiFeed&) = delete;
  ApiFeed& operator=(const ApiFeed&) = delete;
  ~ApiFeed() override { transport_.on_answer({}); }

  void start() override { source_.start(); }
  void doubt_first_lists() override {
    if (wait_) source_.list_again(loop_.now() + *wait_);
  }

 private:
  loop::MainLoop& loop_;
  ClusterFeed& cluster_;
  access::CurlTransport& transport_;
  const watch::RemovalBrake::Wait wait_;
  access::ServerAddresses addresses_;
  watch::ApiSource source_;
};

}  // namespace

std::unique_ptr<ObjectFeed> follow_api(const Options& options, ApiClient& client,
                                       loop::MainLoop& loop, ClusterFeed& cluster, Servers& servers,
                                       spdlog::logger& logger) {
  return std::make_unique<ApiFeed>(options, client, loop, cluster, servers, logger);
}

}  // namespace ipvsproxier::cmd
