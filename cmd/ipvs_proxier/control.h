#pragma once

// Control: the daemon's answers to ipvsctl, over HTTP on a unix socket for root only:
//
//   /v1/status     the daemon's state: version, sync, watches, current problems
//   /v1/settings   its flags and configuration, and the packet filter that it chose
//   /v1/objects    the objects that it plans with, as lists in pages:
//                  ?kind=Service|EndpointSlice|Node [&after=NS/NAME[/SLICE]] [&namespace=NS]
//                  [&service=NS/NAME]
//   /v1/names      the cluster's names of virtual and real servers (name_page.h), in pages:
//                  [?after=NS/NAME[/SLICE]] [&namespace=NS] [&service=NS/NAME]
//   /v1/service    one Service: ?service=NS/NAME (service_page.h); null: there is none
//
// Answers are JSON; a mistake is {"error":"..."} with status 400 or 404; 503 means that the sync
// thread is busy for too long or not ready. Questions never delay a sync by more than one page: the
// sync thread answers between two syncs. Main thread only.
//
// A second socket (probe_socket()), whose answers never wait for questions on the first:
//
//   /v1/health     for kubelet's probes: {"livez","healthz"}, true if these paths of the health
//                  server (healthz.h) answer 200

#include <functional>
#include <stop_token>
#include <string>

#include <spdlog/logger.h>

#include "cmd/ipvs_proxier/cluster_feed.h"
#include "cmd/ipvs_proxier/question_queue.h"
#include "cmd/options.h"
#include "ipset/rules/packet_filter_choice.h"
#include "proxier/serve/http_server.h"
#include "proxier/serve/status.h"

namespace ipvsproxier::cmd {

class Control {
 public:
  // Listens, or logs the failure and continues without. The arguments must outlive this; this must
  // outlive the sync thread.
  Control(const Options& options, ipset::PacketFilterChoice filter, SyncMail& mail,
          const serve::Status& status, spdlog::logger& logger);
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
  // `page` runs on the sync thread; its result "" means that the cluster is not known yet.
  serve::HttpResponse answer_page(std::function<std::string(const sync::Inspection&)> page);

  const Options& options_;
  const ipset::PacketFilterChoice filter_;
  const serve::Status& status_;
  const std::string settings_;
  std::stop_source stop_;
  bool listening_ = false;
  bool probed_ = false;
  QuestionQueue question_queue_;
  serve::HttpServer http_;
  serve::HttpServer probes_;
};

}  // namespace ipvsproxier::cmd
