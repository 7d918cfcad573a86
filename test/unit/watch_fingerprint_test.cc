#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/watch/fingerprint.h"
#include "test/support/ip.h"

namespace ipvsproxier::watch {
namespace {

using test::ip;

using netlink::Family;
using netlink::IpAddress;
using netlink::IpPrefix;
using netlink::Protocol;

api::Service some_service() {
  api::Service service;
  service.name = {"shop", "web"};
  service.cluster_ips = {ip("10.0.0.1")};
  service.ports = {{.name = "http", .port = 80}};
  return service;
}

api::EndpointSlice some_slice() {
  api::EndpointSlice slice;
  slice.name = {"shop", "web-1"};
  slice.service = "web";
  slice.ports = {{.name = "http", .port = 80}};
  slice.endpoints = {{.address = ip("10.1.0.1")}, {.address = ip("10.1.0.2")}};
  return slice;
}

using EditList = void (*)(std::vector<api::Endpoint>&);

std::function<void(api::EndpointSlice&)> edit_endpoints(EditList edit) {
  return [edit](api::EndpointSlice& slice) {
    auto list = slice.endpoints.unpack();
    edit(list);
    slice.endpoints = list;
  };
}

api::Node some_node() {
  return api::Node{.name = "n1", .internal_ips = {ip("192.0.2.1")}};
}

// Each changes one thing; no two results may look alike.
template <typename T>
void check_all_differ(const T& plain, const std::vector<std::function<void(T&)>>& edits) {
  std::set<std::uint64_t> seen{fingerprint(plain)};
  std::size_t number = 0;
  for (const auto& edit : edits) {
    INFO("edit " << number++);
    auto changed = plain;
    edit(changed);
    REQUIRE_FALSE(changed == plain);
    CHECK(seen.insert(fingerprint(changed)).second);
  }
}

TEST_CASE("equal objects have equal fingerprints") {
  CHECK(fingerprint(some_service()) == fingerprint(some_service()));
  CHECK(fingerprint(some_slice()) == fingerprint(some_slice()));
  CHECK(fingerprint(some_node()) == fingerprint(some_node()));
}

TEST_CASE("when a slice was triggered is none of its state") {
  auto triggered = some_slice();
  triggered.trigger.time.emplace(std::chrono::seconds(1));
  CHECK(fingerprint(triggered) == fingerprint(some_slice()));
}

TEST_CASE("every field of a Service counts") {
  check_all_differ<api::Service>(
      some_service(), {
                          [](auto& s) { s.name.ns = "other"; },
                          [](auto& s) {
                            s.name = {"sho", "pweb"};
                          },
                          [](auto& s) { s.origin = "file"; },
                          [](auto& s) { s.creation_time = 0; },
                          [](auto& s) { s.creation_time = 1; },
                          [](auto& s) { s.type = api::ServiceType::node_port; },
                          [](auto& s) { s.headless = true; },
                          [](auto& s) { s.cluster_ips.push_back(ip("fd00::1")); },
                          [](auto& s) { s.cluster_ips = {ip("10.0.0.2")}; },
                          [](auto& s) { s.ip_families = {Family::ipv4}; },
                          [](auto& s) { s.ip_families = {Family::ipv6}; },
                          [](auto& s) { s.ports[0].name = "https"; },
                          [](auto& s) { s.ports[0].protocol = Protocol::udp; },
                          [](auto& s) { s.ports[0].port = 81; },
                          [](auto& s) { s.ports[0].node_port = 80; },
                          [](auto& s) { s.external_ips = {ip("10.0.0.1")}; },
                          [](auto& s) { s.load_balancer_ips = {ip("10.0.0.1")}; },
                          [](auto& s) { s.source_ranges = {*IpPrefix::parse("10.0.0.0/8")}; },
                          [](auto& s) { s.source_ranges = {*IpPrefix::parse("10.0.0.0/9")}; },
                          [](auto& s) { s.affinity_seconds = 0; },
                          [](auto& s) { s.affinity_seconds = 1; },
                          [](auto& s) { s.external_policy_local = true; },
                          [](auto& s) { s.internal_policy_local = true; },
                          [](auto& s) { s.health_check_node_port = 1; },
                      });
}

TEST_CASE("every field of an EndpointSlice counts") {
  check_all_differ<api::EndpointSlice>(
      some_slice(), {
                        [](auto& s) { s.name.name = "web-2"; },
                        [](auto& s) { s.service = "other"; },
                        [](auto& s) { s.family = Family::ipv6; },
                        [](auto& s) { s.ports[0].port = 81; },
                        [](auto& s) { s.ports[0].name.clear(); },
                        [](auto& s) { s.ports[0].protocol = Protocol::sctp; },
                        edit_endpoints([](auto& list) { std::swap(list[0], list[1]); }),
                        edit_endpoints([](auto& list) { list.pop_back(); }),
                        edit_endpoints([](auto& list) { list[0].ready = false; }),
                        edit_endpoints([](auto& list) { list[0].serving = false; }),
                        edit_endpoints([](auto& list) { list[1].serving = false; }),
                        edit_endpoints([](auto& list) { list[0].terminating = true; }),
                        edit_endpoints([](auto& list) { list[0].node_name = "n"; }),
                        edit_endpoints([](auto& list) { list[0].zone = "n"; }),
                        edit_endpoints([](auto& list) { list[0].target_name = "n"; }),
                        edit_endpoints([](auto& list) { list[0].zone_hints = {"n"}; }),
                        edit_endpoints([](auto& list) { list[0].node_hints = {"n"}; }),
                    });
}

TEST_CASE("every field of a Node counts") {
  check_all_differ<api::Node>(some_node(),
                              {
                                  [](auto& n) { n.name = "n2"; },
                                  [](auto& n) { n.origin = "file"; },
                                  [](auto& n) { n.zone = "a"; },
                                  [](auto& n) { std::swap(n.internal_ips, n.external_ips); },
                                  [](auto& n) { n.external_ips = {ip("192.0.2.1")}; },
                                  [](auto& n) { n.to_be_deleted = true; },
                                  [](auto& n) { n.pod_cidrs = {*IpPrefix::parse("10.0.0.0/24")}; },
                              });
}

TEST_CASE("many similar objects have different fingerprints") {
  std::set<std::uint64_t> seen;
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    auto service = some_service();
    service.cluster_ips = {IpAddress::v4(0x0a000000 + i)};
    seen.insert(fingerprint(service));
  }
  CHECK(seen.size() == 50'000);
}

}  // namespace
}  // namespace ipvsproxier::watch
