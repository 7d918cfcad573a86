#pragma once

// Servers: the daemon's HTTP servers and the values that the threads publish for them: health
// (10256), metrics (10249), and the health of Services with a healthCheckNodePort. Main thread
// only, except status() and metrics(), whose functions name their threads.

#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <spdlog/logger.h>

#include "cmd/options.h"
#include "netlink/ip_address.h"
#include "proxier/loop/line_limit.h"
#include "proxier/loop/main_loop.h"
#include "proxier/model/changes.h"
#include "proxier/serve/http_server.h"
#include "proxier/serve/metrics.h"
#include "proxier/serve/node_port_health.h"
#include "proxier/serve/service_figures.h"
#include "proxier/serve/status.h"
#include "proxier/watch/api_source.h"
#include "proxier/watch/event_recorder.h"

namespace ipvsproxier::cmd {

class Servers {
 public:
  // Serves nothing yet. `families` are the proxied ones. `events` (nullptr without an API server)
  // sends Events about servers that start or fail. `figures`: nullptr without traffic figures of
  // Services. The other arguments must outlive this; the loop must also outlive the thread that
  // publishes.
  Servers(const Options& options, std::vector<netlink::Family> families, loop::MainLoop& loop,
          serve::FiguresDesk* figures, watch::EventRecorder* events, spdlog::logger& logger);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;
  ~Servers();

  // Listens, or keeps trying, and sends Events about it. False: a server could not listen and
  // bindAddressHardFail is set.
  bool start();

  serve::Status& status() { return status_; }
  serve::Metrics& metrics() { return metrics_; }

  // Notes changes passed to the sync thread. `watched`: from an API server, which may delete the
  // Node.
  void note(const model::Changes& changes, const std::optional<api::Node>& node, bool watched);
  // Sets the source of the watches' states, which is read every few seconds.
  void watch(std::function<std::vector<watch::WatchStatus>()> watches);

 private:
  struct Seen {
    std::uint64_t watches = 0;
    std::uint64_t lists = 0;
    std::optional<loop::Timers::Clock::time_point> heard;
  };

  // Name of a server, and the Event's reason if it cannot listen.
  struct Listener {
    std::string name;
    std::string failure;
  };

  bool listen(serve::HttpServer& server, const Listener& who, const std::string& address,
              serve::HttpHandler handler);
  void tell_node_event(watch::EventLevel level, std::string reason, std::string note);
  void tell_service_failure(const serve::NodePortHealth::Failure& failure);
  void note_watch(serve::Resource resource, const watch::ReflectorStatus& now);
  void beat();
  void update_service_health();

  const Options& options_;
  const std::vector<netlink::Family> families_;
  loop::MainLoop& loop_;
  serve::FiguresDesk* const figures_;
  watch::EventRecorder* const events_;
  spdlog::logger& logger_;
  std::function<std::vector<watch::WatchStatus>()> watches_;
  std::array<Seen, serve::kResources.size()> seen_;

  serve::Status status_;
  serve::Metrics metrics_;
  serve::HttpServer http_;
  // That of metrics, if a scrape may wait for figures: probes must not wait for it.
  std::optional<serve::HttpServer> metrics_http_;
  loop::LineLimit limit_{logger_};
  std::set<std::string> told_;  // reported failures of Service health servers
  std::optional<serve::NodePortHealth> service_health_;  // once a Service has a health server
};

}  // namespace ipvsproxier::cmd
