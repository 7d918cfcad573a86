#include "cmd/ipvsctl/listing/connection_listing.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

using netlink::IpAddress;
using netlink::IpvsConnection;
using netlink::Status;

class FakeConnections final : public netlink::ConnectionSource {
 public:
  Status connections(const std::function<Status(const IpvsConnection&)>& each) override {
    const auto one = [](const char* protocol, const char* client, const char* virtual_address,
                        std::uint16_t port, const char* server, std::uint16_t server_port,
                        const char* state, std::uint32_t expires) {
      return IpvsConnection{.protocol = protocol,
                            .client_address = *IpAddress::parse(client),
                            .client_port = 4000,
                            .virtual_address = *IpAddress::parse(virtual_address),
                            .virtual_port = port,
                            .server_address = *IpAddress::parse(server),
                            .server_port = server_port,
                            .state = state,
                            .expires = expires};
    };
    for (const auto& connection :
         {one("TCP", "10.0.0.9", "10.96.8.1", 80, "10.244.0.9", 8080, "ESTABLISHED", 899),
          one("UDP", "10.0.0.1", "10.96.0.10", 53, "10.244.0.2", 53, "UDP", 12),
          one("TCP", "fd00::9", "fd00:96::1", 443, "fd00:244::7", 8443, "FIN_WAIT", 60)})
      if (auto status = each(connection); !status) return status;
    return {};
  }
};

// Of shop/web.
ClusterNames web_names() {
  ClusterNames names;
  REQUIRE(names.take_page(R"({"services":[
{"namespace":"shop","name":"web","virtual":[["10.96.8.1",80,"TCP","http","cluster IP"]],
 "slices":[{"ports":[8080],
            "endpoints":[["10.244.0.9","web-7d4b9-x2x8z","n1","",true,true,false]]}]}],
"continue":""})"));
  return names;
}

std::string told(const ConnectionStyle& style, const ClusterNames& names = web_names()) {
  FakeConnections source;
  std::string text;
  REQUIRE(tell_connections(source, style, names, [&](std::string_view part) -> Status {
    text += part;
    return {};
  }));
  return text;
}

const std::string kTitle =
    "Prot Expires State       Client                Service                                  "
    "Backend\n";
const std::string kShopWeb =
    "TCP      899 ESTABLISHED 10.0.0.9:4000         10.96.8.1:80 shop/web:http               "
    "10.244.0.9:8080 shop/web-7d4b9-x2x8z\n";
const std::string kDns =
    "UDP       12 UDP         10.0.0.1:4000         10.96.0.10:53                            "
    "10.244.0.2:53\n";
const std::string kSix =
    "TCP       60 FIN_WAIT    [fd00::9]:4000        [fd00:96::1]:443                         "
    "[fd00:244::7]:8443\n";

TEST_CASE("connections: with names, in the kernel's order or another") {
  CHECK(told({}) == kTitle + kShopWeb + kDns + kSix);
  CHECK(told({.sort = ConnectionSort::expires}) == kTitle + kDns + kSix + kShopWeb);
  CHECK(told({.sort = ConnectionSort::state}) == kTitle + kShopWeb + kSix + kDns);
  CHECK(told({.sort = ConnectionSort::client}) == kTitle + kDns + kShopWeb + kSix);
  CHECK(told({.sort = ConnectionSort::service}) == kTitle + kDns + kSix + kShopWeb);
  CHECK(told({.sort = ConnectionSort::backend}) == kTitle + kDns + kShopWeb + kSix);
}

TEST_CASE("connections: filtered as the table is") {
  CHECK(told({.filter = {.protocol = netlink::Protocol::udp}}) == kTitle + kDns);
  CHECK(told({.filter = {.backend = Backend::parse("10.244.0.9")}}) == kTitle + kShopWeb);
  CHECK(told({.filter = {.port = 1}}) == kTitle);
  const auto web = web_names();
  CHECK(told({.filter = {.named = &web}}) == kTitle + kShopWeb);
  CHECK(told({.filter = {.port = 53, .named = &web}}) == kTitle);
  // By names that are not shown.
  CHECK(told({.filter = {.named = &web}}, {}).find("10.96.8.1:80   ") != std::string::npos);
  const ClusterNames none;
  CHECK(told({.filter = {.named = &none}}) == kTitle);
}

TEST_CASE("connections: as documents") {
  const ListFilter web{.port = 80};
  CHECK(told({.filter = web, .format = SetFormat::yaml}) ==
        "connections:\n"
        "- client: 10.0.0.9:4000\n"
        "  expiresSeconds: 899\n"
        "  pod: shop/web-7d4b9-x2x8z\n"
        "  protocol: TCP\n"
        "  realServer: 10.244.0.9:8080\n"
        "  service: shop/web:http\n"
        "  state: ESTABLISHED\n"
        "  virtualService: 10.96.8.1:80\n");
  CHECK(told({.filter = {.port = 1}, .format = SetFormat::yaml}) == "connections: []\n");
  CHECK(told({.filter = {.port = 1}, .format = SetFormat::json}) ==
        "{\n  \"connections\": []\n}\n");
  CHECK(told({.filter = {.port = 53}, .format = SetFormat::json}) ==
        "{\n  \"connections\": [\n    "
        R"({"client":"10.0.0.1:4000","expiresSeconds":12,"protocol":"UDP",)"
        R"("realServer":"10.244.0.2:53","state":"UDP","virtualService":"10.96.0.10:53"})"
        "\n  ]\n}\n");
}

}  // namespace
}  // namespace ipvsproxier::ctl
