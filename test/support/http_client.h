#pragma once

// A plain HTTP client of tests, on libcurl: one request at a time, blocking, or one that streams on
// a thread of its own.

#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "proxier/loop/mailbox.h"

namespace ipvsproxier::test {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::string method = "GET";
  std::string body;
  std::string ca_file;           // of the server; empty: the system's
  std::string certificate_file;  // of the client
  std::string key_file;
  bool http2 = false;  // by ALPN, or at once without TLS
  bool traced = false;
  int timeout_seconds = 20;
  int user_timeout_milliseconds = 0;  // TCP_USER_TIMEOUT with keep-alive probes each second
};

struct HttpResponse {
  int code = 0;
  int version = 0;                             // 1 or 2
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string error;                // libcurl's; empty: complete
  std::string trace;                // what libcurl did and when, if that was asked for
  std::vector<std::size_t> pieces;  // sizes in which the body came
};

HttpResponse fetch(const HttpRequest& request);

// A request whose body is looked at while it comes.
class HttpStream {
 public:
  explicit HttpStream(HttpRequest request);
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;
  ~HttpStream();  // closes the connection

  std::string body() const;
  bool ended() const { return ended_; }
  HttpResponse response() const;  // waits for the end
  // Waits until the body has so many lines; what it has after ten seconds otherwise.
  std::vector<std::string> lines(std::size_t count) const;

 private:
  mutable loop::Mutex mutex_;
  std::string body_ IPVSPROXIER_THREADS(guarded_by(mutex_));
  HttpResponse response_ IPVSPROXIER_THREADS(guarded_by(mutex_));
  std::atomic<int> socket_copy_ = -1;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

}  // namespace ipvsproxier::test
