#include "cmd/follow.h"

#include <csignal>
#include <cstring>

#include <utility>

#include "cmd/config_watch.h"
#include "cmd/kernel_tables.h"
#include "cmd/log.h"
#include "cmd/settings.h"
#include "netlink/link_monitor.h"
#include "proxier/loop/mailbox.h"
#include "proxier/loop/main_loop.h"
#include "proxier/sync/sync_thread.h"
#include "proxier/watch/manifest_follower.h"

namespace ipvsproxier::cmd {

namespace {

using Clock = loop::MainLoop::Clock;
using Mail = loop::Mailbox<sync::SyncInput>;

// Editors write twice, and a mounted ConfigMap changes several names.
constexpr std::chrono::milliseconds kSettle{50};
// What the system would not read may be readable now.
constexpr std::chrono::seconds kTryAgain{5};

// files -> objects -> mailbox
class ManifestFeed {
 public:
  ManifestFeed(const Options& options, loop::MainLoop& loop, Mail& mail, spdlog::logger& logger)
      : options_(options),
        loop_(loop),
        mail_(mail),
        logger_(logger),
        follower_(options.manifests, options.node_name) {
    if (follower_.fd() >= 0) loop_.watch(follower_.fd(), [this] { note_events(); });
  }
  ManifestFeed(const ManifestFeed&) = delete;
  ManifestFeed& operator=(const ManifestFeed&) = delete;
  ~ManifestFeed() {
    if (follower_.fd() >= 0) loop_.unwatch(follower_.fd());
  }

  void read() {
    waiting_ = false;
    auto update = follower_.update();
    log_problems(update.problems, logger_);
    for (const auto& file : update.mended) logger_.info("{}: can be read again", file);
    sync::SyncInput input;
    for (auto& object : update.changed) {
      if (const auto* node = std::get_if<api::Node>(&object)) node_ = *node;
      input.changes.put(std::move(object));
    }
    for (auto& gone : update.deleted) remove(gone, input.changes);
    tell_what_is_missing(update.complete);
    // Without its pod CIDRs the rules would be wrong: those that were known stay in force.
    if (started_ && lacks_pod_cidrs(options_, node_)) input.changes.node.reset();
    // Nothing is programmed before this is set.
    if (started_ || !lacks_pod_cidrs(options_, node_)) {
      input.changes.complete = update.complete;
      started_ = true;
    }
    mail_.put(std::move(input));
    if (update.try_again) read_in(kTryAgain);
  }

 private:
  void note_events() {
    if (follower_.take_events() && !std::exchange(waiting_, true)) read_in(kSettle);
  }

  void read_in(std::chrono::milliseconds delay) {
    loop_.at("read manifests", Clock::now() + delay, [this] { read(); });
  }

  void remove(const watch::DeletedObject& gone, model::Changes& changes) {
    switch (gone.kind) {
      case api::ObjectKind::service:
        changes.services.insert_or_assign(gone.name, std::nullopt);
        return;
      case api::ObjectKind::endpoint_slice:
        changes.slices.insert_or_assign(gone.name, std::nullopt);
        return;
      case api::ObjectKind::node:
        node_.reset();
        changes.node.emplace(std::nullopt);
        return;
    }
  }

  void tell_what_is_missing(bool complete) {
    if (!complete && complete_) log_incomplete(options_, logger_);
    complete_ = complete;
    const bool lacks_node = !node_;
    if (lacks_node && !lacked_node_) log_no_node(options_, logger_);
    lacked_node_ = lacks_node;
    const bool lacks_cidrs = lacks_pod_cidrs(options_, node_);
    if (lacks_cidrs && !lacked_cidrs_)
      log_no_pod_cidrs(options_,
                       started_ ? "the Node stays as it was last seen"
                                : "nothing is programmed until it is there",
                       logger_);
    lacked_cidrs_ = lacks_cidrs;
  }

  const Options& options_;
  loop::MainLoop& loop_;
  Mail& mail_;
  spdlog::logger& logger_;
  watch::ManifestFollower follower_;
  std::optional<api::Node> node_;
  bool waiting_ = false;  // for more events
  bool started_ = false;
  bool complete_ = true;
  bool lacked_node_ = false;
  bool lacked_cidrs_ = false;
};

// notifications -> mailbox. Without them only the periodic reading finds what others did to
// addresses.
class LinkFeed {
 public:
  LinkFeed(loop::MainLoop& loop, Mail& mail, spdlog::logger& logger) : loop_(loop) {
    auto monitor = netlink::LinkMonitor::open(plan::kDummyLink);
    if (!monitor) {
      logger.warn("{}: changes of addresses are noticed only every ipvs.syncPeriod",
                  netlink::to_string(monitor.error()));
      return;
    }
    monitor_ = *std::move(monitor);
    loop_.watch(monitor_->fd(), [this, &mail] {
      sync::SyncInput input;
      input.links = monitor_->take();
      if (!input.empty()) mail.put(std::move(input));
    });
  }
  LinkFeed(const LinkFeed&) = delete;
  LinkFeed& operator=(const LinkFeed&) = delete;
  ~LinkFeed() {
    if (monitor_) loop_.unwatch(monitor_->fd());
  }

 private:
  loop::MainLoop& loop_;
  std::unique_ptr<netlink::LinkMonitor> monitor_;
};

}  // namespace

bool lacks_pod_cidrs(const Options& options, const std::optional<api::Node>& node) {
  return options.config.detect_local_mode == "NodeCIDR" && (!node || node->pod_cidrs.empty());
}

int follow(const Options& options, spdlog::logger& logger) {
  loop::MainLoop loop;
  // Before there are threads: they inherit that these are blocked.
  loop.on_signals({SIGTERM, SIGINT}, [&](int number) {
    logger.info("{}: ending; the kernel stays as it is", strsignal(number));
    loop.quit();
  });
  const auto tables = open_kernel_tables();
  sync::Reconciler reconciler(tables.kernel(), host_reconciler_settings(options, tables, logger),
                              logger);
  Mail mail;
  ManifestFeed feed(options, loop, mail, logger);
  const LinkFeed links(loop, mail, logger);
  // A changed configuration is taken over by starting again.
  const ConfigWatch config(options, loop, logger, [&loop] { loop.quit(); });
  feed.read();
  const sync::SyncThread thread(reconciler, mail, options.config.ipvs.min_sync_period);
  loop.run();
  return 0;
}

}  // namespace ipvsproxier::cmd
