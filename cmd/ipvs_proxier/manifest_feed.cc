// Feeds objects of manifest files to the ClusterFeed.

#include <utility>

#include "cmd/ipvs_proxier/object_feed.h"
#include "cmd/log.h"
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
  ManifestFeed(const Options& options, loop::MainLoop& loop, ClusterFeed& cluster,
               spdlog::logger& logger)
      : options_(options),
        loop_(loop),
        cluster_(cluster),
        logger_(logger),
        follower_(options.manifests, options.node_name) {
    if (follower_.fd() >= 0) loop_.watch(follower_.fd(), [this] { note_events(); });
  }
  ~ManifestFeed() override {
    if (follower_.fd() >= 0) loop_.unwatch(follower_.fd());
  }

  void start() override { read(); }

 private:
  void read() {
    waiting_ = false;
    auto update = follower_.update();
    log_problems(update.problems, logger_);
    for (const auto& file : update.mended) logger_.info("{}: can be read again", file);
    const bool is_complete = *update.changes.complete;
    if (!is_complete && complete_) log_incomplete(options_, logger_);
    complete_ = is_complete;
    cluster_.take(std::move(update.changes));
    if (update.try_again) read_in(kTryAgain);
  }

  void note_events() {
    if (follower_.take_events() && !std::exchange(waiting_, true)) read_in(kSettle);
  }

  void read_in(std::chrono::milliseconds delay) {
    loop_.at("read manifests", Clock::now() + delay, [this] { read(); });
  }

  const Options& options_;
  loop::MainLoop& loop_;
  ClusterFeed& cluster_;
  spdlog::logger& logger_;
  manifests::ManifestFollower follower_;
  bool waiting_ = false;  // waiting for further events
  bool complete_ = true;
};

}  // namespace

std::unique_ptr<ObjectFeed> follow_manifests(const Options& options, loop::MainLoop& loop,
                                             ClusterFeed& cluster, spdlog::logger& logger) {
  return std::make_unique<ManifestFeed>(options, loop, cluster, logger);
}

}  // namespace ipvsproxier::cmd
