#pragma once

// Front: the HTTP side of the test API server, on libmicrohttpd: a thread for each connection.

#include <cstdint>
#include <memory>

#include "netlink/result.h"
#include "test/support/api_server/state.h"

namespace ipvsproxier::test {

class Front {
 public:
  // On 127.0.0.1 and this port, any if 0. `tls`: with state.options.tls, if there is one.
  static netlink::Result<std::unique_ptr<Front>> start(ServerState& state, std::uint16_t port,
                                                       bool tls);
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;
  ~Front();  // ends every connection

  std::uint16_t port() const { return port_; }
  int listener() const;

 private:
  struct Daemon;
  explicit Front(ServerState& state);

  ServerState& state_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace ipvsproxier::test
