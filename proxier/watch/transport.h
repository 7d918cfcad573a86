#pragma once

// Transport: how requests reach the API server. Abstract: CurlTransport speaks HTTP, tests script
// the answers. Everything happens on the main thread.
//
// Who opens an exchange keeps it; destroying it is how to cancel, at any time, also from inside the
// functions of any handler. After that its handler is not called any more. An exchange that has
// ended may be kept or destroyed. How long an exchange may take is the caller's to decide, with one
// exception: a server that cannot be reached any more ends it (within 45 s over HTTP/2).

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::watch {

enum class Method : std::uint8_t { get, post, patch };

struct Request {
  Method method = Method::get;
  std::string target;        // path and query, encoded: "/api/v1/services?limit=500"
  std::string content_type;  // of the body
  std::string body;          // not with get

  friend bool operator==(const Request&, const Request&) = default;
};

struct ResponseHead {
  int status = 0;                                   // 200..599; redirects are not followed
  std::optional<std::chrono::seconds> retry_after;  // never negative

  friend bool operator==(const ResponseHead&, const ResponseHead&) = default;
};

// What is told of one exchange: the head once, the body in chunks as they come, the end once.
// Never called from inside Transport::open(). Outlives the exchange.
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;

  virtual void on_head(const ResponseHead& head) = 0;
  // Decompressed; not empty; nothing is kept of it.
  virtual void on_chunk(std::string_view chunk) = 0;
  // Fine: the response is whole. Else one line that names the server and the cause; the head and
  // any part of the body may have come before.
  virtual void on_end(const netlink::Status& outcome) = 0;
};

class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  // Since when the request is on its way; nothing while it waits for credentials, which end that
  // wait themselves.
  virtual std::optional<std::chrono::steady_clock::time_point> sent() const = 0;

  // "https://10.96.0.1:443", for messages; "" before it is known.
  virtual std::string server() const = 0;

  // The server answered 401: what said who we are is read again for the next exchange.
  virtual void refuse_credentials() = 0;

  // The server said nothing, or its connection broke: what is asked from now on goes over another
  // one, which all can share. What is on its way stays where it is.
  virtual void distrust_connection() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Whatever goes wrong is told to the handler. `handler` outlives the exchange.
  [[nodiscard]] virtual std::unique_ptr<Exchange> open(Request request,
                                                       ResponseHandler& handler) = 0;
};

}  // namespace ipvsproxier::watch
