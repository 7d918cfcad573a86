#include "ipset/filter/nftables_filter.h"

#include <catch2/catch.hpp>

#include <set>

#include "ipset/sets/set_catalog.h"
#include "test/support/ip.h"

namespace ipvsproxier::ipset {
namespace {

using netlink::Protocol;

using Texts = std::vector<std::string>;

netlink::VirtualServiceKey key_of(const char* address, std::uint16_t port) {
  return {test::ip(address), Protocol::tcp, port};
}

// What the Service asks for.
struct Traffic {
  std::vector<std::pair<netlink::VirtualServiceKey, VipTraffic>> vips;
  std::vector<SharedTraffic> shared;
};

Texts texts_of(const Traffic& traffic) {
  Rendered rendered;
  for (const auto& [key, vip] : traffic.vips) render_nftables(key, vip, rendered);
  for (const auto& one : traffic.shared) render_nftables(one, rendered);
  const std::set<SetElement> elements(rendered.elements.begin(), rendered.elements.end());
  Texts texts;
  for (const auto& [id, element] : elements)
    for (const auto& one : one_by_one(element))
      texts.push_back(set_name(id, netlink::Family::ipv4).substr(13) + " " + to_string(one));
  return texts;
}

SharedTraffic vip(const char* address) {
  return {.kind = SharedTraffic::Kind::vip, .address = test::ip(address)};
}
SharedTraffic hairpin(Protocol protocol, const char* address, std::uint16_t port,
                      bool is_node = false) {
  return {SharedTraffic::Kind::hairpin, protocol, is_node, port, test::ip(address)};
}

TEST_CASE("nf_tables: one verdict for each virtual service, whatever its facet") {
  Traffic traffic;
  traffic.shared = {vip("10.0.0.1"), vip("10.0.0.2"), vip("10.0.0.3")};
  for (const auto facet :
       {Facet::cluster_ip, Facet::external_ip, Facet::load_balancer, Facet::node_port}) {
    traffic.vips = {
        {key_of("10.0.0.1", 80), {.facets = facet, .source = ClientSource::kept}},
        {key_of("10.0.0.2", 80), {.facets = facet, .source = ClientSource::masqueraded}},
        {key_of("10.0.0.3", 80),
         {.facets = facet, .source = ClientSource::masqueraded_unless_by_pod}}};
    CHECK(texts_of(traffic) == Texts{"services 10.0.0.1,tcp:80,keep",
                                     "services 10.0.0.2,tcp:80,mark",
                                     "services 10.0.0.3,tcp:80,cluster", "vips 10.0.0.1",
                                     "vips 10.0.0.2", "vips 10.0.0.3"});
  }
}

// By its whole address a host port would be the Service's; of a node port the host port is first.
TEST_CASE("nf_tables: of an address that another link has, ports of Services are kept") {
  Traffic traffic;
  traffic.vips = {{key_of("10.0.0.1", 80), {.facets = Facet::external_ip, .is_bound = false}},
                  {key_of("10.0.0.1", 30080), {.facets = Facet::node_port, .is_bound = false}},
                  {key_of("10.96.0.1", 80), {.facets = Facet::cluster_ip}},
                  {key_of("192.0.2.1", 81), {.facets = Facet::load_balancer, .is_bound = false}}};
  traffic.shared = {vip("10.96.0.1")};
  const auto texts = texts_of(traffic);
  CHECK(Texts(texts.begin(), texts.begin() + 2) ==
        Texts{"on_links 10.0.0.1,tcp:80,10.0.0.1:80", "on_links 192.0.2.1,tcp:81,192.0.2.1:81"});
  CHECK(texts.size() == 7);
  // One key by two facets, of which one is a node port.
  VipTraffic both{.facets = Facet::node_port, .is_bound = false};
  both.join({.facets = Facet::external_ip, .is_bound = false});
  traffic.vips = {{key_of("10.0.0.1", 30080), both}};
  CHECK(texts_of(traffic).front() == "on_links 10.0.0.1,tcp:30080,10.0.0.1:30080");
}

TEST_CASE("nf_tables: an address by two facets has one verdict, and its source ranges hold") {
  const std::vector ranges{test::prefix("192.0.2.0/24")};
  const VipTraffic by_status{
      .facets = Facet::load_balancer, .source = ClientSource::masqueraded, .source_ranges = ranges};
  const VipTraffic by_spec{.facets = Facet::external_ip};
  const Texts expected{"restricted 10.0.0.1,tcp:80,192.0.2.0/24",
                       "services 10.0.0.1,tcp:80,mark,restricted", "vips 10.0.0.1"};
  for (const auto& [first, second] :
       {std::pair(by_spec, by_status), std::pair(by_status, by_spec)}) {
    auto both = first;
    both.join(second);
    const Traffic traffic{{{key_of("10.0.0.1", 80), both}}, {vip("10.0.0.1")}};
    CHECK(texts_of(traffic) == expected);
  }
}

TEST_CASE("nf_tables: source ranges, and this node only if they hold it") {
  const std::vector ranges{test::prefix("192.0.2.0/24"), test::prefix("198.51.100.7/32")};
  Traffic traffic;
  traffic.vips = {{key_of("10.0.0.1", 80),
                   {.facets = Facet::load_balancer,
                    .source = ClientSource::masqueraded,
                    .source_ranges = ranges}}};
  const Texts without{"restricted 10.0.0.1,tcp:80,192.0.2.0/24",
                      "restricted 10.0.0.1,tcp:80,198.51.100.7/32",
                      "services 10.0.0.1,tcp:80,mark,restricted"};
  CHECK(texts_of(traffic) == without);
  traffic.vips[0].second.ranges_hold_node = true;
  auto with = without;
  with.insert(with.begin(), "restricted 10.0.0.1,tcp:80,10.0.0.1/32");
  CHECK(texts_of(traffic) == with);
  traffic.vips[0].second.source_ranges = {};
  CHECK(texts_of(traffic) == Texts{"services 10.0.0.1,tcp:80,mark"});
}

TEST_CASE("nf_tables: of source ranges within others only the outermost are elements") {
  const std::vector ranges{test::prefix("192.0.2.0/28"), test::prefix("192.0.2.128/25"),
                           test::prefix("192.0.2.0/25"), test::prefix("192.0.2.0/25"),
                           test::prefix("192.0.2.7/32")};
  Traffic traffic;
  traffic.vips = {
      {key_of("192.0.2.1", 80),
       {.facets = Facet::load_balancer, .ranges_hold_node = true, .source_ranges = ranges}}};
  CHECK(texts_of(traffic) == Texts{"restricted 192.0.2.1,tcp:80,192.0.2.0/25",
                                   "restricted 192.0.2.1,tcp:80,192.0.2.128/25",
                                   "services 192.0.2.1,tcp:80,keep,restricted"});
}

// Packets of this node have it as their source.
TEST_CASE("nf_tables: a range that holds the Service's own address does not let this node in") {
  std::vector ranges{test::prefix("192.0.2.0/29"), test::prefix("198.51.100.0/24")};
  Traffic traffic;
  traffic.vips = {
      {key_of("192.0.2.5", 80), {.facets = Facet::load_balancer, .source_ranges = ranges}}};
  CHECK(texts_of(traffic) == Texts{"restricted 192.0.2.5,tcp:80,192.0.2.0/30",
                                   "restricted 192.0.2.5,tcp:80,192.0.2.4/32",
                                   "restricted 192.0.2.5,tcp:80,192.0.2.6/31",
                                   "restricted 192.0.2.5,tcp:80,198.51.100.0/24",
                                   "services 192.0.2.5,tcp:80,keep,restricted"});
  ranges = {test::prefix("192.0.2.5/32")};
  traffic.vips[0].second.source_ranges = ranges;
  CHECK(texts_of(traffic) == Texts{"restricted 192.0.2.5,tcp:80,0.0.0.0/32",
                                   "services 192.0.2.5,tcp:80,keep,restricted"});
  traffic.vips[0].second.ranges_hold_node = true;
  CHECK(texts_of(traffic) == Texts{"restricted 192.0.2.5,tcp:80,192.0.2.5/32",
                                   "services 192.0.2.5,tcp:80,keep,restricted"});
}

TEST_CASE("nf_tables: addresses, hairpins and health ports, each once") {
  Traffic traffic;
  traffic.shared = {vip("10.0.0.1"),
                    vip("10.0.0.2"),
                    hairpin(Protocol::tcp, "10.244.0.3", 8080),
                    hairpin(Protocol::udp, "10.244.0.3", 53),
                    {.kind = SharedTraffic::Kind::health_port, .port = 32000}};
  CHECK(texts_of(traffic) == Texts{"local_endpoints 10.244.0.3", "health_ports 32000",
                                   "vips 10.0.0.1", "vips 10.0.0.2"});
}

TEST_CASE("nf_tables: the node's own address is no hairpin") {
  Traffic traffic;
  traffic.shared = {hairpin(Protocol::tcp, "10.0.0.1", 8080, true),
                    hairpin(Protocol::tcp, "10.244.0.3", 8080, false)};
  CHECK(texts_of(traffic) == Texts{"local_endpoints 10.244.0.3"});
}

}  // namespace
}  // namespace ipvsproxier::ipset
