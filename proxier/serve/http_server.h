#pragma once

// HttpServer: any number of listening sockets, each with a handler, served by two threads: one
// accepts, and one of libmicrohttpd reads and answers. A listener costs a descriptor and some
// hundred bytes, so thousands of Services can have one each.
//
// Limits against misbehaving clients: each listener and the whole server accept a limited number of
// connections. A connection beyond the limit ends the one that has been without an answer for
// longest. Ended connections exist a moment longer; all together never exceed twice the limit.
// Header and body sizes are limited, silent connections end after a time, and accepting pauses
// while no descriptors are left.
//
// listen(), serve(), keep_listening() and close() may be called on any thread except the server's.
// They wait at most for the running handler. Handlers run one at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <spdlog/logger.h>

#include "netlink/result.h"
#include "proxier/serve/http.h"
#include "proxier/serve/listen_socket.h"

namespace ipvsproxier::serve {

struct HttpLimits {
  std::size_t connections = 512;
  std::size_t connections_per_listener = 64;
  std::chrono::seconds silence{90};           // longer than the time between two scrapes
  std::size_t connection_memory = 16 * 1024;  // limits the header
  std::size_t request_body = 64 * 1024;       // read and dropped; a larger body ends the connection
  std::chrono::milliseconds retry{5'000};     // for keep_listening()
};

class HttpServer {
 public:
  using Id = std::uint64_t;

  struct Listening {
    Id id = 0;
    std::uint16_t port = 0;  // the chosen port, if 0 was requested
  };

  // `logger` must outlive this. Throws std::runtime_error if the system has no thread or descriptor
  // left.
  explicit HttpServer(spdlog::logger& logger, HttpLimits limits = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();  // ends all connections; waits for the running handler

  // Tries once; returns the failure, if any.
  netlink::Result<Listening> listen(const ListenAddress& address, HttpHandler handler);

  // The same with a socket that is already listening.
  netlink::Result<Listening> serve(ListenSocket socket, HttpHandler handler);

  // Tries again every `retry` on the server's thread until it can listen. Logs the first failure
  // and the later success under `name` ("health server"); returns the first failure.
  netlink::Result<Listening> keep_listening(const std::string& name, const ListenAddress& address,
                                            HttpHandler handler);

  // Closes the socket and ends its connections. The handler does not run any more after this
  // returns.
  void close(Id id);

  struct Counts {
    std::size_t listeners = 0;
    std::size_t connections = 0;
  };
  Counts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ipvsproxier::serve
