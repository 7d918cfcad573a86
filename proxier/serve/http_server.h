#pragma once

// HttpServer: any number of listening sockets with one handler each, served by two threads: one
// accepts, one, libmicrohttpd's, reads and answers. A listener costs a descriptor and some hundred
// bytes, so that thousands of Services can have one each.
//
// Clients cannot hurt: a listener takes so many connections, and so does the server; the next one
// costs the one that waited longest since its last answer its place; connections that end are there
// a moment longer, never more than twice as many as the limit together with the others. Header and
// body sizes are bounded. Silent connections end after a time. Without descriptors accepting
// pauses.
//
// listen(), keep_listening(), close() may be called on any thread but the server's; they wait at
// most for the handler that runs. Handlers run one at a time.

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
  std::chrono::seconds silence{90};           // longer than between two scrapes
  std::size_t connection_memory = 16 * 1024;  // bounds the header
  std::size_t request_body = 64 * 1024;       // read and dropped; more ends the connection
  std::chrono::milliseconds retry{5'000};     // of keep_listening()
};

class HttpServer {
 public:
  using Id = std::uint64_t;

  struct Listening {
    Id id = 0;
    std::uint16_t port = 0;  // the one that was chosen, if none was asked for
  };

  // `logger` outlives this. Throws std::runtime_error where the system has no thread or descriptor
  // left.
  explicit HttpServer(spdlog::logger& logger, HttpLimits limits = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();  // ends all connections; waits for the handler that runs

  // Answers the failure and is done with it.
  netlink::Result<Listening> listen(const ListenAddress& address, HttpHandler handler);

  // On a socket that listens already.
  netlink::Result<Listening> serve(ListenSocket socket, HttpHandler handler);

  // Tries again every `retry` on the server's thread until it can listen. Logs the first failure
  // and the success that follows as those of `name` ("health server"), and answers the first
  // failure.
  netlink::Result<Listening> keep_listening(const std::string& name, const ListenAddress& address,
                                            HttpHandler handler);

  // Closes the socket, ends its connections. Its handler does not run any more when this returns.
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
