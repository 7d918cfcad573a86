#include "test/support/relay.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "netlink/ip_address.h"
#include "test/support/sockets.h"

namespace ipvsproxier::test {

using netlink::IpAddress;
using netlink::Protocol;
using netlink::Result;
using netlink::UniqueFd;

namespace {

constexpr int kTimeoutMs = 5000;
// How long until it is noticed that connections are to be cut.
constexpr int kTurnMs = 10;

IpAddress here() {
  return IpAddress::v4(0x7f000001);
}

}  // namespace

Result<std::unique_ptr<Relay>> Relay::start(std::uint16_t server) {
  std::unique_ptr<Relay> relay(new Relay());
  auto listener = server_socket(Protocol::tcp, here(), 0);
  if (!listener) return listener.error();
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  ::getsockname(listener->get(), reinterpret_cast<sockaddr*>(&bound), &size);
  relay->server_ = server;
  relay->port_ = ntohs(bound.sin_port);
  relay->listener_ = std::move(*listener);
  const auto started = relay->thread_.start([raw = relay.get()] { raw->serve(); });
  if (!started) return started.error();
  return relay;
}

void Relay::serve() {
  for (;;) {
    std::vector<pollfd> entries = {{.fd = thread_.stop_fd(), .events = POLLIN, .revents = 0},
                                   {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const auto& [fd, pair] : pairs_) {
      entries.push_back(pollfd{.fd = fd, .events = POLLIN, .revents = 0});
      entries.push_back(pollfd{.fd = pair.server.get(), .events = POLLIN, .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), kTurnMs) < 0 && errno != EINTR) return;
    if (entries[0].revents != 0) return;
    if (entries[1].revents != 0) accept_one();
    for (auto pair = pairs_.begin(); pair != pairs_.end();)
      pair = lasts(pair->second) ? std::next(pair) : pairs_.erase(pair);
  }
}

void Relay::accept_one() {
  SocketAddress peer;
  Pair pair{.client = UniqueFd(
                ::accept4(listener_.get(), peer.raw(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK)),
            .server = {},
            .swallowed = swallowed_,
            .cut = cut_};
  if (!pair.client) return;
  ++accepted_;
  auto server = client_socket(Protocol::tcp, socket_address(here(), 0),
                              socket_address(here(), server_), kTimeoutMs, "relay");
  if (!server) return;
  pair.server = std::move(*server);
  const int fd = pair.client.get();
  pairs_[fd] = std::move(pair);
}

bool Relay::lasts(const Pair& pair) {
  if (pair.cut != cut_) return false;
  if (pair.swallowed != swallowed_) {
    static_cast<void>(move(pair.server, nullptr));  // the client does not see how it ends
    return move(pair.client, nullptr);
  }
  return move(pair.client, &pair.server) && move(pair.server, &pair.client);
}

bool Relay::move(const UniqueFd& from, const UniqueFd* to) {
  std::array<char, 16384> chunk{};
  const ssize_t size = ::recv(from.get(), chunk.data(), chunk.size(), 0);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;
  if (to == nullptr) {
    swallowed_bytes_ += static_cast<std::size_t>(size);
    return true;
  }
  for (ssize_t sent = 0; sent < size;) {
    if (!wait_for(to->get(), POLLOUT, kTimeoutMs, "relay")) return false;
    const ssize_t now =
        ::send(to->get(), chunk.data() + sent, static_cast<std::size_t>(size - sent), MSG_NOSIGNAL);
    if (now < 0) return false;
    sent += now;
  }
  return true;
}

}  // namespace ipvsproxier::test
