// What annotations of a Service ask for, and what is said of values that make no sense.

#include "proxier/model/service_settings.h"

#include <catch2/catch.hpp>

#include "proxier/api/annotations.h"
#include "test/support/cluster_builder.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::model {
namespace {

using namespace std::chrono_literals;
using Annotations = std::vector<api::Annotation>;
using Lines = std::vector<std::string>;

// By key, as the decoder leaves them.
api::Service annotated(Annotations annotations) {
  auto service = test::web_service();
  std::ranges::sort(annotations, {}, &api::Annotation::key);
  service.annotations = std::move(annotations);
  return service;
}

ServiceSettings read_service(const api::Service& service) {
  auto [settings, problems] = parse_settings(service);
  CHECK(test::lines_of(problems).empty());
  return settings;
}

ServiceSettings read(Annotations annotations) {
  return read_service(annotated(std::move(annotations)));
}

TEST_CASE("a Service without annotations asks for nothing") {
  CHECK(read({}) == ServiceSettings{});
}

TEST_CASE("every annotation of ours is read") {
  auto service = annotated({{"ipvs-proxier/scheduler", "mh"},
                            {"ipvs-proxier/scheduler-flags", "mh-fallback, mh-port"},
                            {"ipvs-proxier/weights", "zone=a:3, node=n:1:2,local:0"},
                            {"ipvs-proxier/max-connections", "1000/800"},
                            {"ipvs-proxier/one-packet", "true"},
                            {"ipvs-proxier/drain-timeout", "1m30s"},
                            {"ipvs-proxier/affinity-mask", "24, 64"},
                            {"ipvs-proxier/metrics", "true"}});
  service.affinity_seconds = 60;
  service.ports.front().protocol = netlink::Protocol::udp;
  const auto settings = read_service(service);
  CHECK(settings.scheduler == "mh");
  CHECK(settings.flags == (netlink::kSchedulerFlag1 | netlink::kSchedulerFlag2));
  CHECK(settings.weights == std::vector<WeightRow>{{WeightRow::By::zone, "a", 3},
                                                   {WeightRow::By::node, "n:1", 2},
                                                   {WeightRow::By::local, "", 0}});
  CHECK(settings.max_connections == Thresholds{1000, 800});
  CHECK(settings.one_packet);
  CHECK(settings.drain_timeout == 90s);
  CHECK(settings.mask_v4 == 24);
  CHECK(settings.mask_v6 == 64);
  CHECK(settings.metrics == true);
}

TEST_CASE("a Service may be without a limit where the node has one") {
  CHECK(read({{"ipvs-proxier/max-connections", "0"}}).max_connections == Thresholds{});
  CHECK_FALSE(read({}).max_connections);
}

TEST_CASE("traffic figures are those of all Services, of annotated ones or of none") {
  const auto counted = [](Annotations annotations, ServiceMetrics which, bool heeds = true) {
    return is_counted(annotated(std::move(annotations)), which, heeds);
  };
  const Annotations yes = {{"ipvs-proxier/metrics", "true"}};
  const Annotations no = {{"ipvs-proxier/metrics", "false"}};
  const Annotations odd = {{"ipvs-proxier/metrics", "1"}};
  CHECK_FALSE(counted(yes, ServiceMetrics::off));
  CHECK(counted(yes, ServiceMetrics::annotated));
  CHECK_FALSE(counted({}, ServiceMetrics::annotated));
  CHECK_FALSE(counted(no, ServiceMetrics::annotated));
  CHECK_FALSE(counted(odd, ServiceMetrics::annotated));
  CHECK_FALSE(counted(yes, ServiceMetrics::annotated, false));
  CHECK(counted({}, ServiceMetrics::all));
  CHECK(counted(odd, ServiceMetrics::all));
  CHECK_FALSE(counted(no, ServiceMetrics::all));
  CHECK(counted(no, ServiceMetrics::all, false));
}

TEST_CASE("every scheduler of the kernel may be asked for, and no other") {
  for (const auto name : kSchedulers)
    CHECK(read({{"ipvs-proxier/scheduler", std::string(name)}}).scheduler == name);
  const auto [settings, problems] =
      parse_settings(annotated({{"ipvs-proxier/scheduler", "../../evil"}}));
  CHECK(settings.scheduler.empty());
  CHECK(test::lines_of(problems) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/scheduler]: must be "
              "one of rr, wrr, lc, wlc, lblc, lblcr, dh, sh, mh, sed, nq, fo, ovf, twos, not "
              "\"../../evil\"; it is ignored"});
}

TEST_CASE("a value that makes no sense is one problem, and the rest counts") {
  const auto [key, value] = GENERATE(table<std::string, std::string>({
      {"scheduler", ""},
      {"scheduler", "RR"},
      {"scheduler-flags", "mh-port,,"},
      {"scheduler-flags", "ops"},
      {"weights", ""},
      {"weights", "zone=a"},
      {"weights", "zone=:3"},
      {"weights", "zone=a:-1"},
      {"weights", "zone=a:65536"},
      {"weights", "zone=a: 3"},
      {"weights", "local=x:3"},
      {"weights", "zone=a:3,"},
      {"max-connections", ""},
      {"max-connections", "0/1"},
      {"metrics", "yes"},
      {"max-connections", "4294967296"},
      {"max-connections", "10/11"},
      {"max-connections", "10/"},
      {"max-connections", "1e3"},
      {"one-packet", ""},
      {"one-packet", "yes"},
      {"drain-timeout", "-1s"},
      {"drain-timeout", "30"},
      {"drain-timeout", "forever"},
      {"affinity-mask", "0"},
      {"affinity-mask", "33"},
      {"affinity-mask", "24,129"},
      {"affinity-mask", "24,64,1"},
      {"weight", "5"},
      {"", ""},
  }));
  INFO(key << " = " << value);
  auto service = annotated({{"ipvs-proxier/" + key, value}, {"kube-router.io/service.local", ""}});
  service.affinity_seconds = 60;
  const auto [settings, problems] = parse_settings(service);
  CHECK(problems.size() == 1);
  CHECK(problems.front().severity == api::Severity::warning);
  CHECK(problems.front().field == "metadata.annotations[ipvs-proxier/" + key + "]");
  ServiceSettings expected;
  expected.local = true;
  CHECK(settings == expected);
}

TEST_CASE("a hostile value costs one short line") {
  std::string rows = "zone=a:1";
  for (int i = 0; i < 300; ++i) rows += ",local:1";
  const auto [settings, problems] = parse_settings(annotated({{"ipvs-proxier/weights", rows}}));
  CHECK(settings.weights.empty());
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().message.size() < 300);
}

TEST_CASE("kube-router's annotations count by its rules, and ours win") {
  CHECK(read({{"kube-router.io/service.scheduler", "lc"}}).scheduler == "lc");
  CHECK(read({{"kube-router.io/service.scheduler", "lc"}, {"ipvs-proxier/scheduler", "wrr"}})
            .scheduler == "wrr");
  // Its flags are those of mh.
  CHECK_FALSE(read({{"kube-router.io/service.schedflags", "flag-1"}}).flags);
  CHECK(read({{"kube-router.io/service.scheduler", "mh"},
              {"kube-router.io/service.schedflags", "flag-1,flag-2"}})
            .flags == (netlink::kSchedulerFlag1 | netlink::kSchedulerFlag2));
  CHECK(read({{"kube-router.io/service.scheduler", "mh"},
              {"kube-router.io/service.schedflags", "flag-1,flag-2"},
              {"ipvs-proxier/scheduler-flags", ""}})
            .flags == 0U);
  // Presence counts, whatever the value.
  CHECK(read({{"kube-router.io/service.local", "false"}}).local);
  CHECK(read({{"kube-router.io/service.skiplbips", ""}}).skips_load_balancer_ips);
}

TEST_CASE("of kube-router's annotations that are no matter of proxying a line says why") {
  const auto settings = read({{"kube-router.io/service.dsr", "tunnel"},
                              {"kube-router.io/service.hairpin", ""},
                              {"kube-router.io/service.advertise.loadbalancerip", "true"}});
  CHECK(settings.notes.size() == 3);
  for (const auto& note : settings.notes) CHECK(note.starts_with("kube-router.io/service."));
}

TEST_CASE("what only counts together with something else is told without it") {
  const auto warns = [](const api::Service& service) {
    return test::lines_of(parse_settings(service).problems);
  };
  CHECK(warns(annotated({{"ipvs-proxier/one-packet", "true"}})) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/one-packet]: has no "
              "effect: the Service has no UDP port"});
  auto dns = annotated({{"ipvs-proxier/one-packet", "true"}});
  dns.ports.push_back({.name = "dns", .protocol = netlink::Protocol::udp, .port = 53});
  CHECK(warns(dns) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/one-packet]: is not "
              "for DNS: answers come from the endpoint's own address, so that clients drop them"});
  CHECK(warns(annotated({{"ipvs-proxier/affinity-mask", "24"}})) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/affinity-mask]: has "
              "no effect without sessionAffinity: ClientIP"});
}

TEST_CASE("an endpoint's weight is its slice's, else that of the first row that matches, else 1") {
  const auto settings = read({{"ipvs-proxier/weights", "node=n2:5,zone=z1:3,local:4"}});
  api::EndpointSlice slice;
  const auto weight = [&](std::string_view node, std::string_view zone, bool local) {
    api::EndpointView endpoint;
    endpoint.node_name = node;
    endpoint.zone = zone;
    return weight_of(settings, slice, endpoint, local).value;
  };
  CHECK(weight("n2", "z1", false) == 5);
  CHECK(weight("n3", "z1", false) == 3);
  CHECK(weight("n1", "z2", true) == 4);
  CHECK(weight("n3", "z2", false) == 1);
  CHECK(weight("", "", false) == 1);
  api::EndpointView endpoint;
  CHECK(weight_of(settings, slice, endpoint, true) == Weight{4, WeightBy::local});
  CHECK(weight_of(settings, slice, endpoint, false) == Weight{1, WeightBy::nobody});
  endpoint.node_name = "n2";
  CHECK(weight_of(settings, slice, endpoint, true) == Weight{5, WeightBy::node});
  slice.weight = 0;
  CHECK(weight("n2", "z1", false) == 0);
  CHECK(weight_of(settings, slice, endpoint, true) == Weight{0, WeightBy::slice});
}

TEST_CASE("service settings: unknown annotations of our prefix are one problem") {
  std::vector<api::Annotation> annotations = {{"ipvs-proxier/sheduler", "rr"}};
  const auto told = [&] { return test::lines_of(parse_settings(annotated(annotations)).problems); };
  CHECK(told() == std::vector<std::string>{
                      "warning: Service default/web: metadata.annotations[ipvs-proxier/sheduler]: "
                      "is no annotation of a Service; it is ignored"});
  for (int i = 0; i < 1000; ++i) annotations.push_back({"ipvs-proxier/x" + std::to_string(i), ""});
  CHECK(told() == std::vector<std::string>{
                      "warning: Service default/web: metadata.annotations[ipvs-proxier/sheduler]: "
                      "is no annotation of a Service, nor are 1000 others; they are ignored"});
}

}  // namespace
}  // namespace ipvsproxier::model
