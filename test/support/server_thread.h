#pragma once

// The thread of a test server, and how it is told to end.

#include <functional>
#include <thread>

#include "netlink/result.h"
#include "netlink/unique_fd.h"

namespace ipvsproxier::test {

class ServerThread {
 public:
  ServerThread() = default;
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;
  ~ServerThread();  // stops it, waits for it

  // `serve` returns when stop_fd() is readable.
  netlink::Status start(std::function<void()> serve);
  int stop_fd() const { return stop_.get(); }

 private:
  netlink::UniqueFd stop_;  // eventfd
  std::thread thread_;
};

}  // namespace ipvsproxier::test
