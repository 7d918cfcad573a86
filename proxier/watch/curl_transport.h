#pragma once

// CurlTransport: the Transport of the daemon, by libcurl on the main loop. HTTP/2 where the server
// has it, else 1.1; gzip; a proxy as ClusterAccess or the environment say it. The server's
// certificate is verified unless ClusterAccess says insecure_skip_tls_verify.
//
// One connection carries all exchanges where HTTP/2 allows it. A path that is dead is noticed
// within 30 s where packets vanish (http_transfer.h), and within 45 s where something in between
// keeps our side open (channel.h).

#include <memory>

#include "proxier/loop/main_loop.h"
#include "proxier/watch/channel.h"
#include "proxier/watch/credentials.h"
#include "proxier/watch/transport.h"

namespace ipvsproxier::watch {

class CurlTransport final : public Transport {
 public:
  // Both outlive this, which outlives its exchanges. Its deadlines are named "exchange ..." and
  // "channel ...".
  CurlTransport(loop::MainLoop& loop, Credentials& credentials, const PathCheck& check = {})
      : loop_(loop), credentials_(credentials), check_(check) {}

  [[nodiscard]] std::unique_ptr<Exchange> open(Request request, ResponseHandler& handler) override;

 private:
  std::shared_ptr<Channel> channel_for(const ClusterAccess& access);

  loop::MainLoop& loop_;
  Credentials& credentials_;
  const PathCheck check_;
  std::shared_ptr<Channel> channel_;  // for new exchanges, unless it is retired
  unsigned long exchanges_ = 0;
  unsigned long channels_ = 0;
};

}  // namespace ipvsproxier::watch
