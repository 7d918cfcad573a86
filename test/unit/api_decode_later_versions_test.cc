#include <fmt/format.h>
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

TEST_CASE("an address with a mode of a later version is left out, as with Proxy") {
  Problems problems;
  const auto service =
      decode(service_with("type: LoadBalancer, clusterIP: 10.0.0.9, ports: [{port: 80}]",
                          "status: {loadBalancer: {ingress: [{ip: 192.0.2.1, ipMode: Shared}, {ip: "
                          "192.0.2.2}]}}\n"),
             problems);
  REQUIRE(service);
  CHECK(std::get<Service>(*service).load_balancer_ips ==
        std::vector{*IpAddress::parse("192.0.2.2")});
  CHECK(lines_of(problems) ==
        Lines{"warning: f: Service shop/web: status.loadBalancer.ingress[0].ipMode: must be VIP or "
              "Proxy, not \"Shared\"; this entry is left out"});
}

// KEP-5311: names of Services are labels of RFC 1123; a slice has the name of a subdomain.
TEST_CASE("names may begin with a digit, and be as long as they may") {
  const std::string label = "0" + std::string(62, 'a');
  const std::string subdomain = "9" + std::string(252, 'b');
  Problems problems;
  const auto service = decode(
      fmt::format(
          "# YAML\n{{kind: Service, apiVersion: v1, metadata: {{name: {0}, namespace: {0}}}, "
          "spec: {{clusterIP: 10.0.0.9, ports: [{{port: 80}}]}}}}",
          label),
      problems);
  const auto slice = decode(
      fmt::format(
          "# YAML\n{{kind: EndpointSlice, apiVersion: discovery.k8s.io/v1, metadata: {{name: "
          "{1}, namespace: {0}, labels: {{kubernetes.io/service-name: {0}}}}}, "
          "addressType: IPv4}}",
          label, subdomain),
      problems);
  CHECK(lines_of(problems) == Lines{});
  REQUIRE(service);
  REQUIRE(slice);
  CHECK(std::get<Service>(*service).name == NamespacedName{label, label});
  CHECK(std::get<EndpointSlice>(*slice).name == NamespacedName{label, subdomain});
  CHECK(std::get<EndpointSlice>(*slice).service == label);
}

}  // namespace
}  // namespace ipvsproxier::api
