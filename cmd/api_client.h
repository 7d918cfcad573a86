#pragma once

// ApiClient: the parts that talk to the API server: credentials, transport, and the recorder of
// Events. Main thread only. Must outlive its users.

#include <spdlog/logger.h>

#include "proxier/access/cluster_access.h"
#include "proxier/access/credentials.h"
#include "proxier/access/curl_transport.h"
#include "proxier/loop/main_loop.h"
#include "proxier/watch/event_recorder.h"

namespace ipvsproxier::cmd {

struct ApiClient {
  // The loop and the logger must outlive it. Sends nothing yet.
  ApiClient(access::AccessSource access, loop::MainLoop& loop, spdlog::logger& logger);

  // Random numbers in [0, 1), so that many nodes do not send requests at the same moment.
  std::function<double()> random;
  access::Credentials credentials;
  access::CurlTransport transport;
  watch::EventRecorder events;
};

}  // namespace ipvsproxier::cmd
