// The test bed itself: what the other kernel tests stand on.

#include "test/kernel/netns.h"

#include <catch2/catch.hpp>

#include "test/support/echo.h"

namespace ipvsproxier::test {
namespace {

using netlink::IpAddress;
using netlink::Protocol;

IpAddress address(const char* text) {
  return IpAddress::parse(text).value();
}

TEST_CASE("a fresh namespace has no links but lo, and is left again") {
  const std::string before = shell("readlink /proc/thread-self/ns/net");
  {
    const FreshNetns fresh;
    CHECK(shell("readlink /proc/thread-self/ns/net") != before);
    const std::string links = shell("ip -o link show up");
    CHECK(links.find(" lo: ") != std::string::npos);
    CHECK(shell("ipvsadm-save -n").empty());
    shell("ip link add kube-ipvs0 type dummy");
  }
  CHECK(shell("readlink /proc/thread-self/ns/net") == before);
  CHECK(shell("ip -o link show").find("kube-ipvs0") == std::string::npos);
}

TEST_CASE("an echo server names itself and the client it sees") {
  const Netns client;
  const Netns server;
  connect({client, "eth0", "10.0.0.1/24 fd00::1/64"}, {server, "eth0", "10.0.0.2/24 fd00::2/64"});

  for (const char* family : {"10.0.0.", "fd00::"}) {
    const IpAddress target = address((std::string(family) + "2").c_str());
    const auto echo = server.inside([&] {
      return EchoServer::start("pod-a", target, 80, {Protocol::tcp, Protocol::udp, Protocol::sctp});
    });
    REQUIRE(echo);
    for (const Protocol protocol : {Protocol::tcp, Protocol::udp, Protocol::sctp}) {
      INFO(family << " " << netlink::to_string(protocol));
      const auto answer = client.inside(
          [&] { return ask(protocol, target, 80, {.source = {}, .source_port = 40000}); });
      REQUIRE(answer);
      CHECK(*answer == EchoAnswer{.server = "pod-a",
                                  .client = address((std::string(family) + "1").c_str()),
                                  .client_port = 40000});
    }
  }
}

TEST_CASE("a refused request tells how") {
  const FreshNetns fresh;
  const auto refused = ask(Protocol::tcp, address("127.0.0.1"), 9);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().sys_errno == ECONNREFUSED);
  const auto unreachable = ask(Protocol::udp, address("10.0.0.1"), 9);
  REQUIRE_FALSE(unreachable);
  CHECK(unreachable.error().sys_errno == ENETUNREACH);
}

TEST_CASE("a virtual service made by ipvsadm forwards to a server in another namespace") {
  const Netns node;
  const Netns pod;
  connect({node, "veth0", "10.0.0.1/24"}, {pod, "eth0", "10.0.0.2/24"});
  pod.ip("route add default via 10.0.0.1\n");
  const auto echo = pod.inside(
      [&] { return EchoServer::start("pod-a", address("10.0.0.2"), 80, {Protocol::tcp}); });
  REQUIRE(echo);
  const EnterNetns enter(node);
  shell("ip addr add 10.96.0.1/32 dev lo; ipvsadm -A -t 10.96.0.1:443 -s rr");
  shell("ipvsadm -a -t 10.96.0.1:443 -r 10.0.0.2:80 -m");
  const auto answer = ask(Protocol::tcp, address("10.96.0.1"), 443);
  REQUIRE(answer);
  CHECK(answer->server == "pod-a");
}

}  // namespace
}  // namespace ipvsproxier::test
