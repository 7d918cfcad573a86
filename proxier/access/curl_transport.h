#pragma once

// CurlTransport: the daemon's Transport, using libcurl on the main loop. HTTP/2 if the server has
// it, else HTTP/1.1; gzip; a proxy from ClusterAccess or the environment. The server's certificate
// is verified unless ClusterAccess has insecure_skip_tls_verify.
//
// With HTTP/2 one connection carries all exchanges. A dead path is noticed within 30 s if packets
// vanish (http_transfer.h), and within 45 s if a device in between keeps our side open (channel.h).

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "netlink/ip_address.h"
#include "proxier/access/channel.h"
#include "proxier/access/credentials.h"
#include "proxier/access/transport.h"
#include "proxier/loop/main_loop.h"

namespace ipvsproxier::access {

class CurlTransport final : public Transport {
 public:
  // Both arguments must outlive this, and this must outlive its exchanges. Its deadlines are named
  // "exchange ..." and "channel ...".
  CurlTransport(loop::MainLoop& loop, Credentials& credentials, const PathCheck& check = {})
      : loop_(loop), credentials_(credentials), check_(check) {}

  // Told at the head of each answer: the server ("https://10.96.0.1:443"), and the address at the
  // other end of the connection.
  using OnAnswer = std::function<void(const std::string& server, const netlink::IpAddress& peer)>;
  void on_answer(OnAnswer told) { on_answer_ = std::move(told); }

  [[nodiscard]] std::unique_ptr<Exchange> open(Request request, ResponseHandler& handler) override;

 private:
  std::shared_ptr<Channel> channel_for(const ClusterAccess& access);

  loop::MainLoop& loop_;
  Credentials& credentials_;
  const PathCheck check_;
  OnAnswer on_answer_;
  std::shared_ptr<Channel> channel_;  // for new exchanges, unless retired
  unsigned long exchanges_ = 0;
  unsigned long channels_ = 0;
};

}  // namespace ipvsproxier::access
