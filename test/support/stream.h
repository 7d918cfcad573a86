#pragma once

// A connection that lasts: a server that greets as an EchoServer does and then sends back every
// byte it gets until the client closes, and a client that notices if one byte is lost, changed or
// late.

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "netlink/unique_fd.h"
#include "test/support/echo.h"
#include "test/support/server_thread.h"

namespace ipvsproxier::test {

// Serves one address and port with a thread of its own until it is destroyed; that closes all its
// connections.
class StreamServer {
 public:
  // TCP or SCTP. Binds in the network namespace of the calling thread.
  static netlink::Result<std::unique_ptr<StreamServer>> start(std::string name,
                                                              netlink::Protocol protocol,
                                                              const netlink::IpAddress& address,
                                                              std::uint16_t port);
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;
  ~StreamServer() = default;  // stops the thread, waits for it

 private:
  struct Connection {
    netlink::UniqueFd socket;
    std::string unsent;
    bool ended = false;  // the client sends no more
  };
  explicit StreamServer(std::string name) : name_(std::move(name)) {}
  void serve();
  void accept_one();
  // False when the connection is over.
  static bool move_bytes(Connection& connection, short events);

  std::string name_;
  netlink::UniqueFd listener_;
  std::map<int, Connection> connections_;
  ServerThread thread_;  // last: it ends before what it uses
};

// A connection to a StreamServer. Made in the network namespace of the calling thread; works on any
// thread afterwards.
class Stream {
 public:
  // Connects and reads the greeting.
  static netlink::Result<Stream> open(netlink::Protocol protocol, const netlink::IpAddress& address,
                                      std::uint16_t port, const AskOptions& options = {});

  const EchoAnswer& greeting() const { return greeting_; }

  // Sends bytes that it never sent before and waits until exactly they are back. Whoever calls it
  // once per tick keeps the connection busy; the first error says that it broke, and how: the errno
  // of a reset, `io` without one if the server closed it, `malformed` for other bytes, `timeout`.
  netlink::Status exchange(int timeout_ms = 5000, std::size_t bytes = 4000);

  void reset() &&;  // ends it at once, for both

 private:
  Stream(netlink::UniqueFd fd, std::string where) : fd_(std::move(fd)), where_(std::move(where)) {}
  netlink::Status receive_greeting(int timeout_ms);
  netlink::Status receive_exactly(const std::string& expected, int timeout_ms);

  netlink::UniqueFd fd_;
  std::string where_;
  EchoAnswer greeting_;
  std::uint64_t blocks_ = 0;
};

}  // namespace ipvsproxier::test
