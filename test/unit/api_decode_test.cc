#include <catch2/catch.hpp>

#include "test/support/ip.h"
#include "test/unit/decoded_text.h"

namespace ipvsproxier::api {
namespace {

using test::decode;
using test::decode_whole;
using test::ip;
using test::lines_of;
using test::service_with;
using test::slice_with;
using Lines = std::vector<std::string>;

constexpr const char* kAddressAndPort = "clusterIP: 10.0.0.9, ports: [{port: 80}]";

TEST_CASE("a Service with everything") {
  const auto service = decode_whole<Service>(R"(
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: shop
  creationTimestamp: "2026-11-20T22:19:50Z"
  labels: {app: web, service.kubernetes.io/service-proxy-name: ""}
spec:
  type: LoadBalancer
  clusterIP: 10.0.0.9
  clusterIPs: [10.0.0.9, "fd00::9"]
  ipFamilies: [IPv4, IPv6]
  ports:
  - {name: http, port: 80, targetPort: http, nodePort: 30080}
  - {name: dns, port: 53, protocol: UDP}
  externalIPs: [198.51.100.20, "FD00:0::20"]
  loadBalancerSourceRanges: [" 203.0.113.5/24 ", "fd01::/64"]
  sessionAffinity: ClientIP
  sessionAffinityConfig: {clientIP: {timeoutSeconds: 600}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Local
  healthCheckNodePort: 32000
status:
  loadBalancer:
    ingress: [{ip: 192.0.2.10, ipMode: VIP}, {ip: 192.0.2.11}, {hostname: x}, {ip: 192.0.2.9, ipMode: Proxy}]
)");
  CHECK(
      service ==
      Service{.name = {"shop", "web"},
              .origin = "f",
              .creation_time = 1795213190,
              .type = ServiceType::load_balancer,
              .headless = false,
              .cluster_ips = {ip("10.0.0.9"), ip("fd00::9")},
              .ip_families = {Family::ipv4, Family::ipv6},
              .ports = {{"http", Protocol::tcp, 80, 30080}, {"dns", Protocol::udp, 53, 0}},
              .external_ips = {ip("198.51.100.20"), ip("fd00::20")},
              .load_balancer_ips = {ip("192.0.2.10"), ip("192.0.2.11")},
              .source_ranges = {*IpPrefix::parse("203.0.113.0/24"), *IpPrefix::parse("fd01::/64")},
              .affinity_seconds = 600,
              .external_policy_local = true,
              .internal_policy_local = true,
              .health_check_node_port = 32000});
}

TEST_CASE("a short Service gets the API's defaults") {
  const auto service = decode_whole<Service>(
      "apiVersion: v1\nkind: Service\nmetadata: {name: web, creationTimestamp: null}\n"
      "spec: {clusterIP: 'fd00::9', ports: [{port: 80}], sessionAffinity: ClientIP, type: ''}\n");
  CHECK(service == Service{.name = {"default", "web"},
                           .origin = "f",
                           .cluster_ips = {ip("fd00::9")},
                           .ip_families = {Family::ipv6},
                           .ports = {{"", Protocol::tcp, 80, 0}},
                           .affinity_seconds = 10800});
}

TEST_CASE("empty text means the default where an API server reads it so") {
  const auto service = decode_whole<Service>(
      service_with("clusterIP: 10.0.0.9, clusterIPs: [], ipFamilies: null, type: '', "
                   "sessionAffinity: '', externalTrafficPolicy: '', internalTrafficPolicy: null, "
                   "externalIPs: null, ports: [{port: 80, protocol: '', name: null, nodePort: "
                   "null}, {port: 53, protocol: UDP}]",
                   "status: {loadBalancer: {ingress: null}}\n"));
  CHECK(service == Service{.name = {"shop", "web"},
                           .origin = "f",
                           .cluster_ips = {ip("10.0.0.9")},
                           .ip_families = {Family::ipv4},
                           .ports = {{"", Protocol::tcp, 80, 0}, {"", Protocol::udp, 53, 0}}});
}

TEST_CASE("headless and ExternalName Services need neither address nor ports") {
  CHECK(decode_whole<Service>(service_with("clusterIP: None")).headless);
  const auto named = decode_whole<Service>(service_with("type: ExternalName, externalName: x.y"));
  CHECK(named.type == ServiceType::external_name);
  CHECK(named.cluster_ips.empty());
}

TEST_CASE("an EndpointSlice with everything") {
  const auto slice = decode_whole<EndpointSlice>(slice_with(R"(
addressType: IPv6
ports:
- {name: http, port: 8080, protocol: TCP, appProtocol: h2c}
- {port: 53, protocol: UDP}
endpoints:
- addresses: ["fd00::0:1", "fd00::2"]
  conditions: {ready: false, serving: true, terminating: true}
  nodeName: n1
  zone: z1
  targetRef: {kind: Pod, name: web-abc}
  hints: {forZones: [{name: z1}, {name: z2}], forNodes: [{name: n1}]}
- {addresses: ["fd00::3"], conditions: {ready: null}}
)"));
  const Endpoint first{.address = ip("fd00::1"),
                       .ready = false,
                       .serving = true,
                       .terminating = true,
                       .node_name = "n1",
                       .zone = "z1",
                       .target_name = "web-abc",
                       .zone_hints = {"z1", "z2"},
                       .node_hints = {"n1"}};
  CHECK(slice == EndpointSlice{.name = {"shop", "web-1"},
                               .origin = "f",
                               .service = "web",
                               .family = Family::ipv6,
                               .ports = {{"http", Protocol::tcp, 8080}, {"", Protocol::udp, 53}},
                               .endpoints = {first, Endpoint{.address = ip("fd00::3")}}});
}

TEST_CASE("a slice says when the cluster changed so that it is so, which is none of its state") {
  const auto slice_annotated = [](const std::string& annotations) {
    return decode_whole<EndpointSlice>(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"
        "metadata: {name: web-1, namespace: shop" +
        annotations + "}\n");
  };
  const std::string key = "endpoints.kubernetes.io/last-change-trigger-time";
  const auto slice =
      slice_annotated(", annotations: {a: b, " + key + ": '2026-11-20T22:19:50.25Z'}");
  REQUIRE(slice.trigger.time);
  CHECK(std::chrono::milliseconds(250) ==
        *slice.trigger.time -
            std::chrono::system_clock::time_point(std::chrono::seconds(1795213190)));
  const std::string odd =
      GENERATE("", ", annotations: null", ", annotations: {}",
               ", annotations: {endpoints.kubernetes.io/last-change-trigger-time: now}");
  const auto other = slice_annotated(odd);
  CHECK_FALSE(other.trigger.time);
  CHECK(other == slice);
}

TEST_CASE("null is absent everywhere in an EndpointSlice") {
  const auto bare =
      decode_whole<EndpointSlice>(slice_with("addressType: IPv4\nports: null\nendpoints: null\n"));
  CHECK(bare.ports.empty());
  CHECK(bare.endpoints.empty());
  const auto slice = decode_whole<EndpointSlice>(slice_with(R"(
addressType: IPv4
ports: [{name: null, port: 80, protocol: null, appProtocol: null}]
endpoints:
- {addresses: [10.0.0.1], conditions: null, hints: null, nodeName: null, zone: null, targetRef: null}
- {addresses: [10.0.0.2], conditions: {serving: null, terminating: null}, hints: {forZones: null}}
)"));
  CHECK(slice.ports == std::vector<EndpointPort>{{"", Protocol::tcp, 80}});
  CHECK(slice.endpoints ==
        EndpointList{Endpoint{.address = ip("10.0.0.1")}, Endpoint{.address = ip("10.0.0.2")}});
}

TEST_CASE("a Node") {
  const auto node = decode_whole<Node>(R"(
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: z1}}
spec: {podCIDR: 10.244.0.0/24, podCIDRs: [10.244.0.0/24, "fd00:244::/64"]}
status:
  addresses:
  - {type: InternalIP, address: 10.0.0.1}
  - {type: Hostname, address: n1}
  - {type: ExternalIP, address: 192.0.2.1}
  - {type: InternalIP, address: "fd00::1"}
)");
  CHECK(node ==
        Node{.name = "n1",
             .origin = "f",
             .zone = "z1",
             .internal_ips = {ip("10.0.0.1"), ip("fd00::1")},
             .external_ips = {ip("192.0.2.1")},
             .pod_cidrs = {*IpPrefix::parse("10.244.0.0/24"), *IpPrefix::parse("fd00:244::/64")}});
}

TEST_CASE("a Node on its way out") {
  const auto [rest, expected] = GENERATE(table<std::string, bool>({
      {"metadata: {name: n1}", false},
      {"metadata: {name: n1, deletionTimestamp: null}", false},
      {"metadata: {name: n1, deletionTimestamp: '2026-11-21T00:00:00Z'}", true},
      {"metadata: {name: n1}\nspec: {taints: [{key: a, effect: NoSchedule}]}", false},
      {"metadata: {name: n1}\nspec: {taints: [{key: a}, {key: ToBeDeletedByClusterAutoscaler}]}",
       true},
  }));
  CAPTURE(rest);
  CHECK(decode_whole<Node>("apiVersion: v1\nkind: Node\n" + rest).to_be_deleted == expected);
}

TEST_CASE("a Node's podCIDR stands for a missing list, as an API server fills it in") {
  const std::string head = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: ";
  CHECK(decode_whole<Node>(head + "{podCIDR: 10.244.0.0/24}").pod_cidrs ==
        std::vector{*IpPrefix::parse("10.244.0.0/24")});
  CHECK(decode_whole<Node>(head + "{podCIDR: '', podCIDRs: []}").pod_cidrs.empty());
  Problems problems;
  CHECK(decode(head + "{podCIDR: 10.244.0.0}", problems));
  CHECK(lines_of(problems) == Lines{"error: f: Node n1: spec.podCIDR: \"10.244.0.0\" is no CIDR; "
                                    "it is left out"});
}

TEST_CASE("a port's name is looked for among few and among many") {
  for (const int other : {0, 3, 15, 16, 17, 39}) {
    std::string ports;
    for (int i = 0; i < 40; ++i)
      ports += "{name: p" + std::to_string(i) + ", port: 80}, {name: p" + std::to_string(i) +
               ", port: 80, protocol: UDP}, ";
    const auto last = "{name: p" + std::to_string(other) + ", port: 81, protocol: UDP}";
    const auto service = [&](const std::string& text) {
      return service_with("clusterIP: 10.0.0.9, ports: [" + text + "]");
    };
    CHECK(decode_whole<Service>(service(ports)).ports.size() == 80);
    Problems problems;
    CHECK_FALSE(decode(service(ports + last), problems));
    CHECK(lines_of(problems) ==
          Lines{"error: f: Service shop/web: spec.ports[80].name: \"p" + std::to_string(other) +
                "\" is another UDP port's name too; the object is left out"});
  }
}

TEST_CASE("what costs the object is named by file, object and field") {
  const auto [text, line] = GENERATE_COPY(table<std::string, std::string>({
      {service_with("clusterIP: 10.0.0.9, ports: [{port: '80'}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not \"80\""},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 1}, {name: b, port: 70000}]"),
       "spec.ports[1].port: must be a whole number from 1 to 65535, not 70000"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 0}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not 0"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 80.5}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not 80.5"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 80.0}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not 80.0"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: true}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not true"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 99999999999999999999}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not 1e+20"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 18446744073709551615}]"),
       "spec.ports[0].port: must be a whole number from 1 to 65535, not 18446744073709551615"},
      {service_with("clusterIP: 10.0.0.9, ports: [{name: a}]"), "spec.ports[0].port: is missing"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 80, nodePort: -1}]"),
       "spec.ports[0].nodePort: must be a whole number from 0 to 65535, not -1"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 80, protocol: tcp}]"),
       "spec.ports[0].protocol: must be TCP, UDP or SCTP, not \"tcp\""},
      {service_with("clusterIP: 10.0.0.9, ports: [80]"),
       "spec.ports[0]: must be an object, not 80"},
      {service_with("clusterIP: 10.0.0.9, ports: {port: 80}"),
       "spec.ports: must be a list, not an object"},
      {service_with("clusterIP: 10.0.0.9, ports: [{port: 80}, {port: 81}]"),
       "spec.ports[1].name: \"\" is another TCP port's name too"},
      {service_with("clusterIP: 10.0.0.9, ports: []"),
       "spec.ports: a Service with a cluster address needs at least one port"},
      {service_with("clusterIP: 10.0.0.9"),
       "spec.ports: a Service with a cluster address needs at least one port"},
      {service_with("clusterIP: 10.0.0, ports: [{port: 80}]"),
       "spec.clusterIP: \"10.0.0\" is no IP address"},
      {service_with("clusterIP: 10, ports: [{port: 80}]"), "spec.clusterIP: must be text, not 10"},
      {service_with("clusterIPs: [10.0.0.9, x], ports: [{port: 80}]"),
       "spec.clusterIPs[1]: \"x\" is no IP address"},
      {service_with("clusterIPs: [10.0.0.9, 10.0.0.8], ports: [{port: 80}]"),
       "spec.clusterIPs[1]: \"10.0.0.8\" is a second address of its family"},
      {service_with("clusterIP: 10.0.0.8, clusterIPs: [10.0.0.9], ports: [{port: 80}]"),
       "spec.clusterIPs[0]: \"10.0.0.9\" differs from spec.clusterIP, \"10.0.0.8\""},
      {service_with("clusterIP: 10.0.0.8, ipFamilies: [IPv6], ports: [{port: 80}]"),
       "spec.ipFamilies[0]: \"IPv6\" is not the family of 10.0.0.8"},
      {service_with("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: "
                    "{timeoutSeconds: 0}}, clusterIP: 10.0.0.9, ports: [{port: 80}]"),
       "spec.sessionAffinityConfig.clientIP.timeoutSeconds: must be a whole number from 1 to "
       "86400, "
       "not 0"},
      {service_with("externalIPs: 1.2.3.4, clusterIP: 10.0.0.9, ports: [{port: 80}]"),
       "spec.externalIPs: must be a list, not \"1.2.3.4\""},
  }));
  CAPTURE(text);
  Problems problems;
  CHECK_FALSE(decode(text, problems));
  CHECK(lines_of(problems) ==
        Lines{"error: f: Service shop/web: " + line + "; the object is left out"});
}

TEST_CASE("annotations of ours and of kube-router are kept as written, and cost no Service") {
  const auto annotated = [](const std::string& annotations) {
    return "apiVersion: v1\nkind: Service\nmetadata: {name: web, annotations: " + annotations +
           "}\nspec: {" + kAddressAndPort + "}\n";
  };
  CHECK(decode_whole<Service>(annotated("{ipvs-proxier/weights: 'local:4', other/scheduler: rr, "
                                        "kube-router.io/service.local: ''}"))
            .annotations == std::vector<Annotation>{{"ipvs-proxier/weights", "local:4"},
                                                    {"kube-router.io/service.local", ""}});
  for (const std::string none : {"null", "[a]", "text", "{ipvs-proxier/weights: null}"})
    CHECK(decode_whole<Service>(annotated(none)).annotations.empty());
  api::Problems problems;
  REQUIRE(decode(annotated("{ipvs-proxier/weights: [1], ipvs-proxier/scheduler: '" +
                           std::string(5000, 'r') + "'}"),
                 problems));
  CHECK(lines_of(problems) ==
        Lines{"warning: f: Service default/web: metadata.annotations.ipvs-proxier/scheduler: is "
              "longer than 4096 bytes; it is ignored",
              "warning: f: Service default/web: metadata.annotations.ipvs-proxier/weights: must be "
              "text, not a list; it is ignored"});
}

TEST_CASE("a slice's weight is a number, or none") {
  const auto weight = [](const std::string& text, std::size_t told) {
    api::Problems problems;
    const auto slice = decode(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n"
        "metadata: {name: web-1, annotations: {ipvs-proxier/weight: " +
            text + "}}\n",
        problems);
    CHECK(problems.size() == told);
    return std::get<EndpointSlice>(slice.value()).weight;
  };
  CHECK(weight("'0'", 0) == 0U);
  CHECK(weight("'65535'", 0) == 65535U);
  CHECK_FALSE(weight("null", 0));
  CHECK_FALSE(weight("'65536'", 1));
  CHECK_FALSE(weight("' 1'", 1));
  CHECK_FALSE(weight("7", 1));
}

TEST_CASE("identity is checked") {
  const auto [text, line] = GENERATE(table<std::string, std::string>({
      {"{kind: Service, metadata: {name: a}}",
       "Service default/a: apiVersion: must be v1, not missing"},
      {"{kind: EndpointSlice, apiVersion: discovery.k8s.io/v1beta1, metadata: {name: a}}",
       "EndpointSlice default/a: apiVersion: must be discovery.k8s.io/v1, not "
       "discovery.k8s.io/v1beta1"},
      {"{kind: EndpointSlice, apiVersion: v1, metadata: {name: a}}",
       "EndpointSlice default/a: apiVersion: must be discovery.k8s.io/v1, not v1"},
      {"{kind: Node, apiVersion: v1, metadata: {namespace: x}}", "Node: metadata.name: is missing"},
      {"{kind: Node, apiVersion: v1}", "Node: metadata.name: is missing"},
      {"{kind: Node, apiVersion: v1, metadata: {name: ''}}", "Node: metadata.name: is missing"},
      {"{apiVersion: v1}", "kind: must be Service, EndpointSlice or Node"},
      {"{kind: Node, apiVersion: v1, metadata: {name: a, labels: [b]}}",
       "Node a: metadata.labels: must be an object, not a list"},
  }));
  CAPTURE(text);
  Problems problems;
  CHECK_FALSE(decode("--- \n# YAML\n" + text, problems));
  CHECK(lines_of(problems) == Lines{"error: f: " + line + "; the object is left out"});
}

TEST_CASE("bad entries of a Service's lists cost only themselves") {
  Problems problems;
  const auto object =
      decode(service_with(std::string(kAddressAndPort) + ", externalIPs: [1.2.3, 5, 1.2.3.4]",
                          "status: {loadBalancer: {ingress: [{ip: x}, {ip: 192.0.2.1}, "
                          "{ip: 192.0.2.2, ipMode: Other}]}}\n"),
             problems);
  REQUIRE(object);
  CHECK(std::get<Service>(*object).external_ips == std::vector{ip("1.2.3.4")});
  CHECK(std::get<Service>(*object).load_balancer_ips == std::vector{ip("192.0.2.1")});
  const std::string start = "error: f: Service shop/web: ";
  CHECK(lines_of(problems) ==
        Lines{start + "spec.externalIPs[0]: \"1.2.3\" is no IP address; this entry is left out",
              start + "spec.externalIPs[1]: must be text, not 5; this entry is left out",
              start + "status.loadBalancer.ingress[0].ip: \"x\" is no IP address; this entry is "
                      "left out",
              "warning: f: Service shop/web: status.loadBalancer.ingress[2].ipMode: must be VIP or "
              "Proxy, not \"Other\"; this entry is left out"});
}

TEST_CASE("a source range that cannot be read closes the load balancer") {
  const auto [range, what] = GENERATE(table<std::string, std::string>({
      {"10.0.0.1", "\"10.0.0.1\" is no CIDR"},
      {"''", "\"\" is no CIDR"},
      {"7", "must be text, not 7"},
  }));
  Problems problems;
  const auto object =
      decode(service_with(std::string(kAddressAndPort) + ", type: LoadBalancer, " +
                              "loadBalancerSourceRanges: [10.0.0.0/8, " + range + "]",
                          "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}\n"),
             problems);
  REQUIRE(object);
  CHECK(std::get<Service>(*object).load_balancer_ips.empty());
  CHECK(std::get<Service>(*object).cluster_ips.size() == 1);
  CHECK(lines_of(problems) ==
        Lines{"error: f: Service shop/web: spec.loadBalancerSourceRanges[1]: " + what +
              "; the Service's load-balancer addresses are not proxied, since whom to admit is "
              "not known"});
}

TEST_CASE("warnings keep the object, or ignore it without an error") {
  Problems problems;
  const auto ports = GENERATE(as<std::string>(), "", "clusterIP: '', ", "clusterIPs: [], ",
                              "clusterIP: null, clusterIPs: [''], ");
  CHECK(decode(service_with(ports + "ports: [{port: 80}]"), problems));
  CHECK(decode("apiVersion: v1\nkind: Node\nmetadata: {name: n1, creationTimestamp: noon}\n",
               problems));
  CHECK_FALSE(decode(slice_with("addressType: FQDN\nendpoints: [{addresses: [a.b]}]\n"), problems));
  const auto slice =
      decode(slice_with("addressType: IPv4\nports: [{name: a, port: null}, {name: b, port: 0}, "
                        "{name: c, port: 1}]\n"),
             problems);
  REQUIRE(slice);
  CHECK(std::get<EndpointSlice>(*slice).ports ==
        std::vector<EndpointPort>{{"c", Protocol::tcp, 1}});
  CHECK(
      lines_of(problems) ==
      Lines{"warning: f: Service shop/web: spec.clusterIP: is missing, and nobody here allocates "
            "one; the Service is not proxied",
            "warning: f: Node n1: metadata.creationTimestamp: \"noon\" is no RFC 3339 time; "
            "treated as missing",
            "warning: f: EndpointSlice shop/web-1: addressType: FQDN is not proxied; the slice is "
            "ignored",
            "warning: f: EndpointSlice shop/web-1: ports[0].port: is missing; this port is left "
            "out",
            "warning: f: EndpointSlice shop/web-1: ports[1].port: is 0; this port is left out"});
}

TEST_CASE("bad endpoints cost only themselves, other mistakes the slice") {
  Problems problems;
  const auto slice = decode(
      slice_with("addressType: IPv4\nendpoints: [{addresses: [10.0.0.300]}, {addresses: []}, "
                 "{addresses: ['fd00::1']}, {}, {addresses: [10.0.0.1]}]\n"),
      problems);
  REQUIRE(slice);
  REQUIRE(std::get<EndpointSlice>(*slice).endpoints.size() == 1);
  CHECK(std::get<EndpointSlice>(*slice).endpoints.begin()->address == ip("10.0.0.1"));
  const std::string start = "error: f: EndpointSlice shop/web-1: ";
  CHECK(lines_of(problems) ==
        Lines{start + "endpoints[0].addresses[0]: \"10.0.0.300\" is no IPv4 address; this endpoint "
                      "is left out",
              start + "endpoints[1].addresses: is empty; this endpoint is left out",
              start + "endpoints[2].addresses[0]: \"fd00::1\" is no IPv4 address; this endpoint is "
                      "left out",
              start + "endpoints[3].addresses: is empty; this endpoint is left out"});

  const auto [rest, line] = GENERATE(table<std::string, std::string>({
      {"endpoints: []\n", "addressType: is missing"},
      {"addressType: IPv4\nendpoints: [{addresses: [10.0.0.1], conditions: {ready: 1}}]\n",
       "endpoints[0].conditions.ready: must be true or false, not 1"},
      {"addressType: IPv4\nendpoints: [{addresses: [10.0.0.1], hints: {forZones: [z1]}}]\n",
       "endpoints[0].hints.forZones[0]: must be an object, not \"z1\""},
  }));
  Problems refused;
  CHECK_FALSE(decode(slice_with(rest), refused));
  CHECK(lines_of(refused) == Lines{start + line + "; the object is left out"});
}

TEST_CASE("bad node addresses and pod CIDRs cost only themselves") {
  Problems problems;
  const auto node = decode(
      "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
      "spec: {podCIDRs: [10.244.0.0, 10.244.1.0/24]}\n"
      "status: {addresses: [{type: InternalIP, address: n1}, {type: InternalIP, address: "
      "10.0.0.1}]}\n",
      problems);
  REQUIRE(node);
  CHECK(std::get<Node>(*node).internal_ips == std::vector{ip("10.0.0.1")});
  CHECK(std::get<Node>(*node).pod_cidrs == std::vector{*IpPrefix::parse("10.244.1.0/24")});
  CHECK(lines_of(problems) ==
        Lines{"error: f: Node n1: spec.podCIDRs[0]: \"10.244.0.0\" is no CIDR; this entry is left "
              "out",
              "error: f: Node n1: status.addresses[0].address: \"n1\" is no IP address; this entry "
              "is left out"});
}

TEST_CASE("kinds of other API groups are other kinds") {
  const auto kind_of = [](const char* text, std::optional<ObjectKind> implied = std::nullopt) {
    const auto json = JsonDocument::parse(text);
    REQUIRE(json);
    return find_kind(json->root(), implied);
  };
  CHECK(kind_of(R"({"kind": "Service", "apiVersion": "v1"})") == ObjectKind::service);
  CHECK(kind_of(R"({"kind": "Service", "apiVersion": "v7"})") == ObjectKind::service);
  CHECK_FALSE(kind_of(R"({"kind": "Service", "apiVersion": "serving.knative.dev/v1"})"));
  CHECK_FALSE(kind_of(R"({"kind": "Pod", "apiVersion": "v1"})"));
  CHECK_FALSE(kind_of("[]"));
  CHECK(kind_of("{}", ObjectKind::node) == ObjectKind::node);
  CHECK(kind_of(R"({"kind": null})", ObjectKind::node) == ObjectKind::node);
  CHECK(kind_of(R"({"kind": "Service"})", ObjectKind::node) == ObjectKind::service);
  CHECK_FALSE(kind_of(R"({"apiVersion": "example.org/v1"})", ObjectKind::node));
}

}  // namespace
}  // namespace ipvsproxier::api
