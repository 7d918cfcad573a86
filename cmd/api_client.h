#pragma once

// ApiClient: what speaks with the API server: who we are there, the transport, and the Events that
// are told. The main thread's. It outlives what uses it.

#include <spdlog/logger.h>

#include "proxier/loop/main_loop.h"
#include "proxier/watch/cluster_access.h"
#include "proxier/watch/credentials.h"
#include "proxier/watch/curl_transport.h"
#include "proxier/watch/event_recorder.h"

namespace ipvsproxier::cmd {

struct ApiClient {
  // The loop and the logger outlive it. Asks for nothing yet.
  ApiClient(watch::AccessSource access, loop::MainLoop& loop, spdlog::logger& logger);

  // In [0, 1): so that many nodes do not ask at the same moment.
  std::function<double()> random;
  watch::Credentials credentials;
  watch::CurlTransport transport;
  watch::EventRecorder events;
};

}  // namespace ipvsproxier::cmd
