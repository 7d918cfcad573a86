#pragma once

// An HTTP server for tests of clients that has no opinion: for every request the bytes that the
// test wants, and the end of the connection. On 127.0.0.1, one connection at a time.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "netlink/unique_fd.h"
#include "test/support/server_thread.h"

namespace ipvsproxier::test {

class RawServer {
 public:
  struct Reply {
    std::string bytes;
    bool reset = false;  // rather than an orderly end
  };
  // Called by the server's thread with the head of a request.
  using Answer = std::function<Reply(const std::string& request)>;

  // nullptr: no port is free.
  static std::unique_ptr<RawServer> start(Answer answer);
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  ~RawServer() = default;  // stops the thread, waits for it

  std::uint16_t port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<std::string> requests() const;

 private:
  explicit RawServer(Answer answer) : answer_(std::move(answer)) {}
  void serve();
  void serve_one(int socket);

  Answer answer_;
  netlink::UniqueFd listener_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  ServerThread thread_;  // last: it ends before what it uses
};

}  // namespace ipvsproxier::test
