#pragma once

// A server that answers with its own name and the client address it sees, and a client for it: how
// tests and the demo learn which backend a packet reached and what it looked like there.
//
// Protocol: a TCP or SCTP server writes "NAME ADDRESS PORT\n" into a connection and closes it; a
// UDP server answers a datagram with it. Sockets live in the network namespace in which they were
// made.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "netlink/ip_address.h"
#include "netlink/result.h"
#include "netlink/unique_fd.h"
#include "test/support/server_thread.h"

namespace ipvsproxier::test {

struct EchoAnswer {
  std::string server;         // the name of the server that answered
  netlink::IpAddress client;  // as the server saw us
  std::uint16_t client_port = 0;

  friend auto operator<=>(const EchoAnswer&, const EchoAnswer&) = default;
};

// Serves one address and port over some protocols with a thread of its own until it is destroyed.
class EchoServer {
 public:
  // Binds in the network namespace of the calling thread.
  static netlink::Result<std::unique_ptr<EchoServer>> start(
      std::string name, const netlink::IpAddress& address, std::uint16_t port,
      const std::vector<netlink::Protocol>& protocols);
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;
  ~EchoServer() = default;  // stops the thread, waits for it

 private:
  struct Listener {
    netlink::Protocol protocol = netlink::Protocol::tcp;
    netlink::UniqueFd socket;
  };
  explicit EchoServer(std::string name) : name_(std::move(name)) {}
  void serve();

  std::string name_;
  std::vector<Listener> listeners_;
  ServerThread thread_;  // last: it ends before what it uses
};

struct AskOptions {
  std::optional<netlink::IpAddress> source;  // bind to it
  std::uint16_t source_port = 0;             // 0: any
  int timeout_ms = 5000;                     // for the whole exchange; `timeout` when it is over
};

// "NAME ADDRESS PORT\n" -> its parts.
netlink::Result<EchoAnswer> parse_answer(const std::string& text, const std::string& where);

// One request from the network namespace of the calling thread. An ICMP error or RST is an error
// with its errno; an answer that is not of an EchoServer is `malformed`.
netlink::Result<EchoAnswer> ask(netlink::Protocol protocol, const netlink::IpAddress& address,
                                std::uint16_t port, const AskOptions& options = {});

// What came of a request, in words to compare with: "web-1 sees 10.244.0.1", "refused"
// (ECONNREFUSED), "no answer" (in time), else the error's text.
std::string outcome(const netlink::Result<EchoAnswer>& result);

// A UDP socket that asks again and again from the same source port: one flow.
class UdpClient {
 public:
  // In the network namespace of the calling thread; asking works on any thread.
  static netlink::Result<UdpClient> open(const netlink::IpAddress& address, std::uint16_t port,
                                         const AskOptions& options = {});

  // One datagram and its answer; answers that came late for earlier ones are thrown away.
  netlink::Result<EchoAnswer> ask(int timeout_ms = 5000);

 private:
  UdpClient(netlink::UniqueFd fd, std::string where)
      : fd_(std::move(fd)), where_(std::move(where)) {}

  netlink::UniqueFd fd_;
  std::string where_;
};

}  // namespace ipvsproxier::test
