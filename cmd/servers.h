#pragma once

// Servers: what the daemon answers over HTTP, and what the threads publish for it: health (10256),
// metrics (10249), and the health of Services with a healthCheckNodePort. The main thread's, but
// for status() and metrics(), of which each function says whose it is.

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "netlink/ip_address.h"
#include "proxier/loop/main_loop.h"
#include "proxier/model/changes.h"
#include "proxier/serve/http_server.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/node_port_health.h"
#include "proxier/serve/status.h"
#include "proxier/watch/api_source.h"
#include "proxier/watch/event_recorder.h"

namespace ipvsproxier::cmd {

class Servers {
 public:
  // Serves nothing yet. `families` are those that are proxied; `events` is where the cluster is
  // told of what starts and what cannot, if there is an API server. The others outlive this; the
  // loop also outlives the thread that publishes.
  Servers(const Options& options, std::vector<netlink::Family> families, loop::MainLoop& loop,
          watch::EventRecorder* events, spdlog::logger& logger);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  ~Servers() = default;

  // Listens, or goes on trying, and tells Events of that. False: bindAddressHardFail is set, and
  // one could not listen.
  bool start();

  serve::Status& status() { return status_; }
  serve::Metrics& metrics() { return metrics_; }

  // What is handed to the sync thread. `watched`: by an API server, which may delete the Node.
  void note(const model::Changes& changes, const std::optional<api::Node>& node, bool watched);
  // Asked for every few seconds.
  void watch(std::function<std::vector<watch::WatchStatus>()> watches);

 private:
  struct Seen {
    std::uint64_t watches = 0;
    std::uint64_t lists = 0;
    std::optional<loop::Timers::Clock::time_point> heard;
  };

  // Whom to listen for, and the reason of the Event if that cannot be.
  struct Listener {
    std::string name;
    std::string failure;
  };

  bool listen(const Listener& who, const std::string& address, serve::HttpHandler handler);
  void tell_node_event(watch::EventLevel level, std::string reason, std::string note);
  void tell_service_failure(const serve::NodePortHealth::Failure& failure);
  void note_watch(serve::Resource resource, const watch::ReflectorStatus& now);
  void beat();
  void update_service_health();

  const Options& options_;
  const std::vector<netlink::Family> families_;
  loop::MainLoop& loop_;
  watch::EventRecorder* const events_;
  spdlog::logger& logger_;
  std::function<std::vector<watch::WatchStatus>()> watches_;
  std::array<Seen, serve::kResources.size()> seen_;

  serve::Status status_;
  serve::Metrics metrics_;
  serve::HttpServer http_;
  std::set<std::string> told_;                           // failures of Service health servers
  std::optional<serve::NodePortHealth> service_health_;  // once there is something to serve
};

}  // namespace ipvsproxier::cmd
