#pragma once

// Control: what the daemon answers to ipvsctl, over HTTP on a unix socket that only root may use:
//
//   /v1/status     how it is: version, sync, watches, what is wrong
//   /v1/settings   its flags and configuration
//   /v1/objects    the objects that it plans with, as lists in pages:
//                  ?kind=Service|EndpointSlice|Node [&after=NS/NAME[/SLICE]] [&namespace=NS]
//                  [&service=NS/NAME]
//   /v1/names      what virtual and real servers are to the cluster (name_page.h), in pages:
//                  [?after=NS/NAME[/SLICE]] [&namespace=NS] [&service=NS/NAME]
//   /v1/service    one Service: ?service=NS/NAME (control_service.h); null: there is none
//
// Answers are JSON; a mistake is {"error":"..."} with status 400 or 404, a sync thread that is busy
// for longer than somebody waits, or not ready, 503. Whoever asks waits, never a sync: an answer of
// the sync thread is made between two of them, and is one page. The main thread's.
//
// On a socket of its own (probe_socket()), where nobody waits for anybody's question:
//
//   /v1/health     what the kubelet's probes ask: {"livez","healthz"}, which are true where those
//                  paths of the health server (healthz.h) answer 200

#include <functional>
#include <stop_token>
#include <string>

#include <spdlog/logger.h>

#include "cmd/cluster_feed.h"
#include "cmd/options.h"
#include "proxier/serve/http_server.h"
#include "proxier/serve/status.h"
#include "proxier/sync/asker.h"

namespace ipvsproxier::cmd {

class Control {
 public:
  // Listens, or says why not and goes on without. What it uses outlives it; it outlives the sync
  // thread.
  Control(const Options& options, SyncMail& mail, const serve::Status& status,
          spdlog::logger& logger);
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  ~Control();

 private:
  bool listen(const std::string& path, serve::HttpServer& server, const serve::HttpHandler& handler,
              spdlog::logger& logger);
  serve::HttpResponse answer_status();
  serve::HttpResponse answer_health() const;
  serve::HttpResponse answer_objects(const serve::HttpRequest& request);
  serve::HttpResponse answer_service(const serve::HttpRequest& request);
  serve::HttpResponse answer_names(const serve::HttpRequest& request);
  // `page` is the sync thread's; "": it has not heard of the cluster yet.
  serve::HttpResponse answer_page(std::function<std::string(const sync::Inspection&)> page);

  const Options& options_;
  const serve::Status& status_;
  const std::string settings_;
  std::stop_source stop_;
  bool listening_ = false;
  bool probed_ = false;
  sync::Asker asker_;
  serve::HttpServer http_;
  serve::HttpServer probes_;
};

}  // namespace ipvsproxier::cmd
