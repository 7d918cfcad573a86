#include "proxier/plan/pitfalls.h"

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::plan {
namespace {

using Ports = std::set<std::uint16_t>;

NodeSettings with_ports(const char* range, const char* reserved) {
  return {.local_ports = range, .reserved_ports = reserved};
}

TEST_CASE("a range of local ports that has node ports is reported, unless they are reserved") {
  const Ports ports = {30080, 30100, 30101, 31000};
  const auto told = local_port_pitfall(with_ports("1024\t65535", ""), ports);
  REQUIRE(told);
  CHECK(told->message.find("(30080,30100-30101,31000)") != std::string::npos);
  CHECK(told->remedy.find("ip_local_reserved_ports") != std::string::npos);
  CHECK(local_port_pitfall(with_ports("30080 30081", "30081"), ports));
  CHECK_FALSE(local_port_pitfall(with_ports("30080 30081", "30080"), ports));
  CHECK_FALSE(local_port_pitfall(with_ports("1024 65535", "8080,30000-32767"), ports));
  CHECK_FALSE(local_port_pitfall(with_ports("32768\t60999", ""), ports));
  CHECK_FALSE(local_port_pitfall(with_ports("1024 65535", ""), {}));
  for (const auto* odd : {"", "1", "65535 1", "a b", "1 70000"}) {
    CAPTURE(odd);
    CHECK_FALSE(local_port_pitfall(with_ports(odd, ""), ports));
  }
  CHECK_FALSE(local_port_pitfall({}, ports));
}

TEST_CASE("many node ports are named by the first ones") {
  Ports ports;
  for (std::uint16_t port = 30000; port < 30100; port += 2) ports.insert(port);
  const auto told = local_port_pitfall(with_ports("1024 65535", ""), ports);
  REQUIRE(told);
  CHECK(told->message.find("30012,30014, ...)") != std::string::npos);
}

TEST_CASE("node ports are added to what is reserved") {
  CHECK(with_reserved("", {30080, 30081, 30090}) == "30080-30081,30090");
  CHECK(with_reserved("8080,30080-30085", {30081, 30086}) == "8080,30080-30086");
  CHECK(with_reserved("30000-32767", {30081, 30086}) == std::nullopt);
  CHECK(with_reserved("65535,what,9-7", {1}) == "1,65535");
}

TEST_CASE("a bridge of pods whose packets do not come to IPVS is reported") {
  const std::vector<netlink::InterfaceAddress> addresses = {
      {"cni0", test::ip("10.244.0.1"), 24},
      {"cni0", test::ip("fd00:244::1"), 64},
      {"docker0", test::ip("172.17.0.1"), 16},
      {"eth0", test::ip("10.244.7.1"), 24},
  };
  const std::vector ranges = {test::prefix("10.244.0.0/24"), test::prefix("fd00:244::/64")};
  const auto pods = [&](const netlink::InterfaceAddress& one) {
    return ranges[0].contains(one.address) || ranges[1].contains(one.address);
  };
  NodeSettings settings{
      .bridge_ipv4 = "1", .bridge_ipv6 = "1", .bridges = {{"cni0", {}}, {"docker0", {}}}};
  CHECK_FALSE(bridge_pitfall(settings, addresses, pods));
  settings.bridge_ipv4 = "0";
  const auto told = bridge_pitfall(settings, addresses, pods);
  REQUIRE(told);
  CHECK(told->about == "bridge cni0");
  CHECK(told->message.find("net.bridge.bridge-nf-call-iptables is 0") != std::string::npos);
  CHECK(told->message.find("ip6tables") == std::string::npos);
  settings.bridge_ipv4.reset();
  settings.bridge_ipv6.reset();
  CHECK(bridge_pitfall(settings, addresses, pods)->message.find("br_netfilter is not loaded") !=
        std::string::npos);
  settings.bridges["cni0"] = {.ipv4 = true, .ipv6 = false};
  CHECK(bridge_pitfall(settings, addresses, pods)->remedy.find("ip6tables") != std::string::npos);
  settings.bridges["cni0"] = {.ipv4 = true, .ipv6 = true};
  CHECK_FALSE(bridge_pitfall(settings, addresses, pods));
  settings.bridges = {{"docker0", {}}};
  CHECK_FALSE(bridge_pitfall(settings, addresses, pods));
}

TEST_CASE("a time-out of IPVS that is shorter than keep-alive is reported") {
  const NodeSettings settings{.keepalive = "7200"};
  const auto told = idle_pitfall(settings, 900);
  REQUIRE(told);
  CHECK(told->message.find("900 s") != std::string::npos);
  CHECK(told->remedy.find("ipvs.tcpTimeout") != std::string::npos);
  CHECK_FALSE(idle_pitfall(settings, 7200));
  CHECK_FALSE(idle_pitfall(settings, 0));
  CHECK_FALSE(idle_pitfall({}, 900));
}

}  // namespace
}  // namespace ipvsproxier::plan
