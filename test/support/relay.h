#pragma once

// Relay: a TCP proxy between a client and a server on 127.0.0.1, which does what proxies do to
// connections that neither side closes. A thread of its own until it is destroyed; every method may
// be called from any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "netlink/result.h"
#include "netlink/unique_fd.h"
#include "test/support/server_thread.h"

namespace ipvsproxier::test {

class Relay {
 public:
  // To the server on this port of 127.0.0.1.
  static netlink::Result<std::unique_ptr<Relay>> start(std::uint16_t server);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() = default;  // stops the thread, waits for it

  std::uint16_t port() const { return port_; }

  // Those that are open lead nowhere from now on: they stay open, what comes is acknowledged and
  // forgotten. New ones work.
  void swallow() { ++swallowed_; }
  // Those that are open are closed on the client's side.
  void cut() { ++cut_; }
  std::size_t accepted() const { return accepted_; }
  // Bytes of clients that were swallowed.
  std::size_t swallowed_bytes() const { return swallowed_bytes_; }

 private:
  struct Pair {
    netlink::UniqueFd client;
    netlink::UniqueFd server;
    unsigned swallowed = 0;  // as it was when it began
    unsigned cut = 0;
  };
  Relay() = default;
  void serve();
  void accept_one();
  bool lasts(const Pair& pair);  // after it moved what came
  bool move(const netlink::UniqueFd& from, const netlink::UniqueFd* to);

  std::uint16_t server_ = 0;
  std::uint16_t port_ = 0;
  netlink::UniqueFd listener_;
  std::map<int, Pair> pairs_;
  std::atomic<unsigned> swallowed_{0};
  std::atomic<unsigned> cut_{0};
  std::atomic<std::size_t> accepted_{0};
  std::atomic<std::size_t> swallowed_bytes_{0};
  ServerThread thread_;  // last: it ends before what it uses
};

}  // namespace ipvsproxier::test
