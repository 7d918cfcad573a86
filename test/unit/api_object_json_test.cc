#include <catch2/catch.hpp>

#include "proxier/api/decode.h"
#include "proxier/api/object_json.h"
#include "test/support/random_cluster.h"

namespace ipvsproxier::test {
namespace {

void check_reads_back(const api::Object& object) {
  const auto text = to_json(object);
  INFO(text);
  const auto document = api::JsonDocument::parse(text);
  REQUIRE(document);
  api::Problems problems;
  const auto read = api::decode_object(document->root(), "", problems);
  for (const auto& problem : problems) FAIL_CHECK(to_string(problem));
  REQUIRE(read);
  CHECK((*read == object));
}

api::EndpointSlice labelled(api::EndpointSlice slice) {
  return slice;
}

// Others have addresses that decoding does not keep, or miss those that an API server gives.
bool is_allocated(const api::Service& service) {
  return service.type != api::ServiceType::external_name &&
         (service.headless || !service.cluster_ips.empty());
}

TEST_CASE("objects of random clusters read back from their JSON as they were") {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    RandomCluster random(seed);
    auto cluster = random.cluster(20);
    random.tweak(cluster);
    for (auto [name, service] : cluster.services) {
      if (service.headless) service.cluster_ips.clear();
      if (is_allocated(service)) check_reads_back(admissible(service));
    }
    for (const auto& [name, slices] : cluster.slices)
      for (const auto& object : slices) check_reads_back(labelled(object));
    if (cluster.node) check_reads_back(*cluster.node);
  }
}

TEST_CASE("what random clusters leave out reads back too") {
  api::Node node{.name = "n1", .zone = "z1"};
  node.external_ips = {netlink::IpAddress::v4(0x01020304)};
  node.to_be_deleted = true;
  check_reads_back(node);
  api::EndpointSlice slice{.name = {"shop", "web-1"}, .service = "web"};
  slice.endpoints.push_back({.address = netlink::IpAddress::v4(0x0a000001),
                             .node_name = "n1",
                             .zone = "z1",
                             .target_name = "web-7"});
  check_reads_back(labelled(slice));
}

}  // namespace
}  // namespace ipvsproxier::test
