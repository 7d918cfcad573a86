#pragma once

// CurlTransport: the Transport of the daemon, by libcurl on the main loop. HTTP/2 where the server
// has it, else 1.1; gzip; a proxy as ClusterAccess or the environment say it. The server's
// certificate is verified unless ClusterAccess says insecure_skip_tls_verify.
//
// A connection must be there 15 s after it was asked for. A peer that has vanished is noticed on an
// idle connection by keep-alive probes and on a busy one by what it does not acknowledge, both
// after 20 to 25 s. One connection carries all exchanges where HTTP/2 allows it.

#include <memory>

#include "proxier/loop/main_loop.h"
#include "proxier/watch/credentials.h"
#include "proxier/watch/transport.h"

namespace ipvsproxier::watch {

class CurlTransport final : public Transport {
 public:
  // Both outlive this and its exchanges. Its deadlines are named "exchange ...".
  CurlTransport(loop::MainLoop& loop, Credentials& credentials)
      : loop_(loop), credentials_(credentials) {}

  [[nodiscard]] std::unique_ptr<Exchange> open(Request request, ResponseHandler& handler) override;

 private:
  loop::MainLoop& loop_;
  Credentials& credentials_;
  unsigned long count_ = 0;
};

}  // namespace ipvsproxier::watch
