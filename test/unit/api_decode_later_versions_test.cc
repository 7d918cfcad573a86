#include <catch2/catch.hpp>

#include "test/unit/decoded_text.h"

namespace ipvsproxier::api {
namespace {

using test::decode;
using test::lines_of;
using test::service_with;
using test::slice_with;
using Lines = std::vector<std::string>;

TEST_CASE("a policy of a later version costs no Service") {
  const auto [fields, line] = GENERATE(table<std::string, std::string>({
      {"type: Balancer",
       "type: must be ClusterIP, NodePort, LoadBalancer or ExternalName, not "
       "\"Balancer\"; it counts as ClusterIP"},
      {"sessionAffinity: Cookie",
       "sessionAffinity: must be None or ClientIP, not \"Cookie\"; it counts as None"},
      {"internalTrafficPolicy: PreferLocal",
       "internalTrafficPolicy: must be Cluster or Local, not \"PreferLocal\"; it counts as "
       "Cluster"},
      {"externalTrafficPolicy: PreferLocal",
       "externalTrafficPolicy: must be Cluster or Local, not \"PreferLocal\"; it counts as "
       "Cluster"},
  }));
  CAPTURE(fields);
  const std::string rest = "clusterIP: 10.0.0.9, ports: [{port: 80}]";
  Problems problems;
  const auto service = decode(service_with(fields + ", " + rest), problems);
  REQUIRE(service);
  Problems none;
  CHECK(std::get<Service>(*service) == std::get<Service>(*decode(service_with(rest), none)));
  CHECK(lines_of(problems) == Lines{"warning: f: Service shop/web: spec." + line});
  // Not a policy that a Service follows here: its hints come in slices.
  problems.clear();
  CHECK(decode(service_with("trafficDistribution: PreferSameRack, " + rest), problems));
  CHECK(lines_of(problems) == Lines{});
}

TEST_CASE("a slice of an address type of a later version is ignored") {
  Problems problems;
  CHECK_FALSE(decode(slice_with("addressType: IPv5\n"), problems));
  CHECK(lines_of(problems) ==
        Lines{"warning: f: EndpointSlice shop/web-1: addressType: must be IPv4 or IPv6, not "
              "\"IPv5\"; the slice is ignored"});
}

}  // namespace
}  // namespace ipvsproxier::api
