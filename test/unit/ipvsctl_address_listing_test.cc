#include "cmd/ipvsctl/listing/address_listing.h"

#include <catch2/catch.hpp>

namespace ipvsproxier::ctl {
namespace {

using netlink::InterfaceAddress;
using netlink::IpAddress;
using netlink::Protocol;
using netlink::VirtualService;

InterfaceAddress on(const std::string& link, const std::string& ip, bool dummy = true) {
  return {.link = link, .address = *IpAddress::parse(ip), .prefix_length = 32, .on_dummy = dummy};
}

VirtualService at(const std::string& ip, std::uint16_t port, Protocol protocol = Protocol::tcp) {
  return {.key = {.address = *IpAddress::parse(ip), .protocol = protocol, .port = port}};
}

const std::vector<InterfaceAddress> kBound = {
    on("kube-ipvs1", "fd00::96"),        on("kube-ipvs0", "10.96.0.10"),
    on("kube-ipvs0", "10.96.0.99"),      on("eth0", "192.0.2.1", false),
    on("kube-ipvs0", "10.9.9.9", false), on("dummy7", "10.8.8.8")};
const std::vector<VirtualService> kServices = {
    at("10.96.0.10", 53, Protocol::udp),
    at("10.96.0.10", 9153),
    at("fd00::96", 80),
    at("192.0.2.1", 30080),
    at("10.96.0.11", 80),
    VirtualService{.key = {.address = IpAddress::v4(0), .fwmark = 7}}};

TEST_CASE("addresses: what is bound, for whom, and what is not as it should be") {
  ClusterNames names;
  REQUIRE(names.take_page(R"({"services":[
{"namespace":"kube-system","name":"kube-dns",
 "virtual":[["10.96.0.10",53,"UDP","dns","cluster IP"],["10.96.0.10",9153,"TCP","m","cluster IP"]],
 "slices":[]},
{"namespace":"shop","name":"web","virtual":[["10.96.0.11",80,"TCP","","cluster IP"]],"slices":[]}],
"continue":""})"));
  const auto rows = address_rows(kBound, {}, kServices, names);
  CHECK(addresses_text(rows, SetFormat::text) ==
        "Address         Family Bound to   Services\n"
        "10.96.0.10      IPv4   kube-ipvs0 kube-system/kube-dns\n"
        "10.96.0.11      IPv4   -          shop/web: bound nowhere\n"
        "10.96.0.99      IPv4   kube-ipvs0 -: no virtual service has it\n"
        "fd00::96        IPv6   kube-ipvs1 -\n");
  CHECK(addresses_text(std::span(rows).subspan(2, 1), SetFormat::yaml) ==
        "addresses:\n"
        "  - address: 10.96.0.99\n"
        "    boundTo: kube-ipvs0\n"
        "    family: IPv4\n"
        "    services: []\n"
        "    wrong: no virtual service has it\n");
}

TEST_CASE("addresses: bound by local routes, and both ways") {
  const std::vector<IpAddress> routes = {*IpAddress::parse("10.96.0.10"),
                                         *IpAddress::parse("10.96.0.11"),
                                         *IpAddress::parse("fd00::98")};
  CHECK(addresses_text(address_rows(kBound, routes, kServices, {}), SetFormat::text) ==
        "Address         Family Bound to    Services\n"
        "10.96.0.10      IPv4   kube-ipvs0  -\n"
        "10.96.0.10      IPv4   table local -\n"
        "10.96.0.11      IPv4   table local -\n"
        "10.96.0.99      IPv4   kube-ipvs0  -: no virtual service has it\n"
        "fd00::96        IPv6   kube-ipvs1  -\n"
        "fd00::98        IPv6   table local -: no virtual service has it\n");
}

TEST_CASE("addresses: nothing bound") {
  CHECK(addresses_text(address_rows({}, {}, {}, {}), SetFormat::json) ==
        "{\n  \"addresses\": []\n}\n");
}

}  // namespace
}  // namespace ipvsproxier::ctl
