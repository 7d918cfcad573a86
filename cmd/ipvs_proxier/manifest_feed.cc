// Feeds objects of manifest files to the ClusterFeed.

#include <utility>

#include "cmd/ipvs_proxier/object_feed.h"
#include "cmd/log.h"
#include "proxier/loop/line_limit.h"
#include "proxier/manifests/manifest_follower.h"

namespace ipvsproxier::cmd {

namespace {

using Clock = loop::MainLoop::Clock;

// Editors write twice, and a mounted ConfigMap changes several names: wait for more events.
constexpr std::chrono::milliseconds kSettle{50};
// Pause before reading again after a failure of the system.
constexpr std::chrono::seconds kTryAgain{5};

class ManifestFeed final : public ObjectFeed {
 public:
  ManifestFeed(const Options& options, loop::MainLoop& loop, ClusterFeed& cluster, Servers& servers,
               spdlog::logger& logger)
      : options_(options),
        loop_(loop),
        cluster_(cluster),
        servers_(servers),
        logger_(logger),
        limit_(logger),
        follower_(options.manifests, options.node_name) {
    if (follower_.fd() >= 0) loop_.watch(follower_.fd(), [this] { note_events(); });
  }
  ~ManifestFeed() override {
    if (follower_.fd() >= 0) loop_.unwatch(follower_.fd());
  }

  void start() override {
    read();
    look_later();
  }

 private:
  void read() {
    waiting_ = false;
    auto update = follower_.update();
    for (const auto& problem : update.problems)
      limit_.log(level_of(problem), api::to_string(problem), Clock::now(),
                 api::namespace_of(problem));
    for (const auto& file : update.mended)
      limit_.log(spdlog::level::info, file + ": can be read again", Clock::now());
    const bool is_complete = *update.changes.complete;
    if (!is_complete && complete_) log_incomplete(options_, logger_);
    complete_ = is_complete;
    servers_.status().set_wrong("manifests", std::move(update.held));
    cluster_.take(std::move(update.changes), update.other_nodes);
    if (update.try_again) read_in(kTryAgain);
  }

  void note_events() {
    if (follower_.take_events() && !std::exchange(waiting_, true)) read_in(kSettle);
  }

  // What changed in place counts at the second look.
  void look_later() {
    const auto pause = options_.config.ipvs.sync_period / 2 / follower_.looks();
    loop_.at("look at manifests", Clock::now() + pause, [this] {
      if (follower_.look() && !std::exchange(waiting_, true)) read_in(kSettle);
      look_later();
    });
  }

  void read_in(std::chrono::milliseconds delay) {
    loop_.at("read manifests", Clock::now() + delay, [this] { read(); });
  }

  const Options& options_;
  loop::MainLoop& loop_;
  ClusterFeed& cluster_;
  Servers& servers_;
  spdlog::logger& logger_;
  loop::LineLimit limit_;
  manifests::ManifestFollower follower_;
  bool waiting_ = false;  // waiting for further events
  bool complete_ = true;
};

}  // namespace

std::unique_ptr<ObjectFeed> follow_manifests(const Options& options, loop::MainLoop& loop,
                                             ClusterFeed& cluster, Servers& servers,
                                             spdlog::logger& logger) {
  return std::make_unique<ManifestFeed>(options, loop, cluster, servers, logger);
}

}  // namespace ipvsproxier::cmd
