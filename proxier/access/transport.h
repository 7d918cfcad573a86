#pragma once

// Transport: interface for requests to the API server. CurlTransport uses HTTP; tests script the
// answers. Main thread only.
//
// The caller owns an exchange. Destroying it cancels it, at any time, also from inside the
// callbacks of any handler; its handler gets no calls afterwards. A finished exchange may be kept
// or destroyed. The caller limits the duration, with one exception: an exchange ends by itself if
// the server becomes unreachable (within 45 s over HTTP/2).

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "netlink/result.h"

namespace ipvsproxier::access {

enum class Method : std::uint8_t { get, post, patch };

// A value of a query, encoded: every byte except letters, digits and "-._~" becomes %XX.
std::string encode_query(std::string_view value);

struct Request {
  Method method = Method::get;
  std::string target;        // path and query, encoded: "/api/v1/services?limit=500"
  std::string content_type;  // of the body
  std::string body;          // not for get

  friend bool operator==(const Request&, const Request&) = default;
};

struct ResponseHead {
  int status = 0;                                   // 200..599; redirects are not followed
  std::optional<std::chrono::seconds> retry_after;  // never negative

  friend bool operator==(const ResponseHead&, const ResponseHead&) = default;
};

// Receives the events of one exchange: the head once, the body in chunks, the end once. Never
// called from inside Transport::open(). Must outlive the exchange.
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;

  virtual void on_head(const ResponseHead& head) = 0;
  // Decompressed and not empty; valid only during the call.
  virtual void on_chunk(std::string_view chunk) = 0;
  // Success: the response is complete. Otherwise one line with the server and the cause; the head
  // and a part of the body may have come before.
  virtual void on_end(const netlink::Status& outcome) = 0;
};

class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  // When the request was sent; nullopt while it waits for credentials, which limit that wait
  // themselves.
  virtual std::optional<std::chrono::steady_clock::time_point> sent() const = 0;

  // "https://10.96.0.1:443", for messages; "" if it is not known yet.
  virtual std::string server() const = 0;

  // The server answered 401: the next exchange reads the credentials again.
  virtual void refuse_credentials() = 0;

  // The server was silent, or its connection broke: later requests use another, shared connection.
  // Current exchanges stay on theirs.
  virtual void distrust_connection() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // All failures are reported to the handler. `handler` must outlive the exchange.
  [[nodiscard]] virtual std::unique_ptr<Exchange> open(Request request,
                                                       ResponseHandler& handler) = 0;
};

}  // namespace ipvsproxier::access
