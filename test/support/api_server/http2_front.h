#pragma once

// Http2Front: nghttpx as a child process, between clients and the Front, for HTTP/2. It is killed
// with the thread that started it, so that no test leaves one behind.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "netlink/result.h"
#include "test/support/api_server/api_server.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {

class Http2Front {
 public:
  // On 127.0.0.1 and `port` (any if 0), before a Front without TLS on `backend`. A client
  // certificate that is required is asked for by nghttpx: without one the handshake fails.
  static netlink::Result<std::unique_ptr<Http2Front>> start(std::uint16_t port,
                                                            std::uint16_t backend,
                                                            const std::optional<ServerTls>& tls);
  Http2Front(const Http2Front&) = delete;
  Http2Front& operator=(const Http2Front&) = delete;
  ~Http2Front();

  std::uint16_t port() const { return port_; }
  // Each socket towards clients; the listening one if `listening`. Descriptors are copies of ours
  // (pidfd_getfd), valid during the call.
  void each_socket(const std::function<void(int socket, bool listening)>& visit) const;

 private:
  Http2Front() = default;
  bool listens() const;

  TempDir files_;
  pid_t child_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace ipvsproxier::test
