#include "test/support/echo.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>

#include "test/support/sockets.h"

namespace ipvsproxier::test {
namespace {

using netlink::Error;
using netlink::ErrorKind;
using netlink::IpAddress;
using netlink::make_error;
using netlink::Operation;
using netlink::Protocol;
using netlink::Result;
using netlink::Status;
using netlink::UniqueFd;

void answer(Protocol protocol, int fd, const std::string& name) {
  SocketAddress peer;
  if (protocol == Protocol::udp) {
    std::array<char, 2048> request{};
    if (::recvfrom(fd, request.data(), request.size(), 0, peer.raw(), &peer.size) < 0) return;
    const std::string text = name + " " + describe(peer) + "\n";
    ::sendto(fd, text.data(), text.size(), MSG_NOSIGNAL, peer.raw(), peer.size);
    return;
  }
  const UniqueFd connection(::accept4(fd, peer.raw(), &peer.size, SOCK_CLOEXEC));
  if (!connection) return;
  const std::string text = name + " " + describe(peer) + "\n";
  ::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

// Reads from a connected socket until the end of the line.
Result<std::string> receive_line(int fd, int timeout_ms, const std::string& where) {
  std::string text;
  while (text.empty() || text.back() != '\n') {
    if (const Status readable = wait_for(fd, POLLIN, timeout_ms, where); !readable) {
      return readable.error();
    }
    std::array<char, 256> chunk{};
    const ssize_t size = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (size < 0) return make_error(Operation::generic, errno, where);
    if (size == 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(size));
  }
  return text;
}

std::string described(Protocol protocol, const IpAddress& address, std::uint16_t port) {
  return std::string(netlink::to_string(protocol)) + " " + netlink::to_string(address, port);
}

SocketAddress source_of(const IpAddress& remote, const AskOptions& options) {
  return socket_address(options.source.value_or(IpAddress::any(remote.family())),
                        options.source_port);
}

}  // namespace

Result<EchoAnswer> parse_answer(const std::string& text, const std::string& where) {
  std::istringstream words(text);
  EchoAnswer result;
  std::string address;
  words >> result.server >> address >> result.client_port;
  const auto client = IpAddress::parse(address);
  if (!words || !client) return Error{ErrorKind::malformed, 0, where + ": answer \"" + text + "\""};
  result.client = *client;
  return result;
}

Result<std::unique_ptr<EchoServer>> EchoServer::start(std::string name, const IpAddress& address,
                                                      std::uint16_t port,
                                                      const std::vector<Protocol>& protocols) {
  std::unique_ptr<EchoServer> server(new EchoServer(std::move(name)));
  for (const Protocol protocol : protocols) {
    auto fd = server_socket(protocol, address, port);
    if (!fd) return fd.error();
    server->listeners_.push_back(Listener{.protocol = protocol, .socket = std::move(*fd)});
  }
  const auto started = server->thread_.start([raw = server.get()] { raw->serve(); });
  if (!started) return started.error();
  return server;
}

void EchoServer::serve() {
  std::vector<pollfd> entries;
  for (const Listener& listener : listeners_) {
    entries.push_back(pollfd{.fd = listener.socket.get(), .events = POLLIN, .revents = 0});
  }
  entries.push_back(pollfd{.fd = thread_.stop_fd(), .events = POLLIN, .revents = 0});
  while (::poll(entries.data(), entries.size(), -1) >= 0 || errno == EINTR) {
    if ((entries.back().revents & POLLIN) != 0) return;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if ((entries[i].revents & POLLIN) != 0) {
        answer(listeners_[i].protocol, entries[i].fd, name_);
      }
    }
  }
}

Result<EchoAnswer> ask(Protocol protocol, const IpAddress& address, std::uint16_t port,
                       const AskOptions& options) {
  const std::string where = described(protocol, address, port);
  auto fd = client_socket(protocol, source_of(address, options), socket_address(address, port),
                          options.timeout_ms, where);
  if (!fd) return fd.error();
  if (protocol == Protocol::udp && ::send(fd->get(), "?", 1, MSG_NOSIGNAL) < 0) {
    return make_error(Operation::generic, errno, where);
  }
  const auto text = receive_line(fd->get(), options.timeout_ms, where);
  if (!text) return text.error();
  return parse_answer(*text, where);
}

std::string outcome(const Result<EchoAnswer>& result) {
  if (result) return result->server + " sees " + result->client.to_string();
  if (result.error().sys_errno == ECONNREFUSED) return "refused";
  if (result.error().kind == ErrorKind::timeout) return "no answer";
  return netlink::to_string(result.error());
}

Result<UdpClient> UdpClient::open(const IpAddress& address, std::uint16_t port,
                                  const AskOptions& options) {
  const std::string where = described(Protocol::udp, address, port);
  auto fd = client_socket(Protocol::udp, source_of(address, options), socket_address(address, port),
                          options.timeout_ms, where);
  if (!fd) return fd.error();
  return UdpClient(std::move(*fd), where);
}

Result<EchoAnswer> UdpClient::ask(int timeout_ms) {
  std::array<char, 256> late{};
  while (::recv(fd_.get(), late.data(), late.size(), 0) >= 0) {
  }
  if (::send(fd_.get(), "?", 1, MSG_NOSIGNAL) < 0) {
    return make_error(Operation::generic, errno, where_);
  }
  const auto text = receive_line(fd_.get(), timeout_ms, where_);
  if (!text) return text.error();
  return parse_answer(*text, where_);
}

}  // namespace ipvsproxier::test
