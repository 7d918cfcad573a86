// Annotations of Services and EndpointSlices: what is planned, and what changes on virtual services
// that serve.

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "proxier/plan/service_plan.h"
#include "test/support/files.h"
#include "test/support/kernel_model.h"
#include "test/support/paths.h"
#include "test/unit/planned_lines.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::e1;
using test::e2;
using test::Lines;
using test::starting;

constexpr auto kWebKey = "10.96.0.9:80/TCP";

PlannerOptions heeding() {
  auto options = test::vector_options();
  options.differences.service_annotations = true;
  return options;
}

api::Service annotated(std::vector<api::Annotation> annotations,
                       api::Service service = test::web_service()) {
  service.annotations = std::move(annotations);
  return service;
}

// The virtual service and its real servers as lines.
Lines virtual_services(const api::Service& service, const PlannerOptions& options = heeding()) {
  Lines lines;
  for (const auto& line : test::planned(service, {e1(), e2()}, options))
    if (line.starts_with("virtual service") || line.starts_with("  real server"))
      lines.push_back(line);
  return lines;
}

TEST_CASE("annotations shape all virtual services of their Service") {
  auto service = test::node_port_service();
  service.affinity_seconds = 60;
  const auto lines = virtual_services(annotated({{"ipvs-proxier/affinity-mask", "24"},
                                                 {"ipvs-proxier/max-connections", "100/80"},
                                                 {"ipvs-proxier/scheduler", "wrr"},
                                                 {"ipvs-proxier/weights", "local:4"}},
                                                service));
  const std::string shape = " wrr flags 0x1 timeout 60 netmask 24 ";
  CHECK(lines == Lines{"virtual service 10.0.0.1:30080/TCP" + shape + "(node port)",
                       "  real server 10.244.0.3:8080 weight 4 thresholds 100/80",
                       "  real server 10.244.1.4:8080 thresholds 100/80",
                       "virtual service 10.96.0.9:80/TCP" + shape + "(cluster IP)",
                       "  real server 10.244.0.3:8080 weight 4 thresholds 100/80",
                       "  real server 10.244.1.4:8080 thresholds 100/80",
                       "virtual service 10.244.0.1:30080/TCP" + shape + "(node port)",
                       "  real server 10.244.0.3:8080 weight 4 thresholds 100/80",
                       "  real server 10.244.1.4:8080 thresholds 100/80"});
}

TEST_CASE("kube-proxy's way knows no annotations") {
  const auto service = annotated({{"ipvs-proxier/scheduler", "wrr"},
                                  {"ipvs-proxier/weights", "nonsense"},
                                  {"ipvs-proxier/affinity-mask", "24"},
                                  {"ipvs-proxier/drain-timeout", "5s"},
                                  {"ipvs-proxier/max-connections", "5"},
                                  {"ipvs-proxier/metrics", "true"},
                                  {"ipvs-proxier/one-packet", "true"},
                                  {"ipvs-proxier/scheduler-flags", "flag-3"},
                                  {"kube-router.io/service.local", ""},
                                  {"kube-router.io/service.schedflags", "flag-1"},
                                  {"kube-router.io/service.scheduler", "mh"},
                                  {"kube-router.io/service.skiplbips", ""}});
  CHECK(virtual_services(service, test::vector_options()) ==
        virtual_services(test::web_service(), test::vector_options()));
}

TEST_CASE("flags are those of the scheduler that is asked for") {
  const auto flags = [](std::vector<api::Annotation> annotations, bool fallback = true) {
    auto options = heeding();
    options.differences.scheduler_fallback = fallback;
    return virtual_services(annotated(std::move(annotations)), options).front();
  };
  CHECK(flags({{"ipvs-proxier/scheduler", "mh"}}) ==
        "virtual service 10.96.0.9:80/TCP mh flags 0x18 (cluster IP)");
  CHECK(flags({{"ipvs-proxier/scheduler", "sh"}}) ==
        "virtual service 10.96.0.9:80/TCP sh flags 0x8 (cluster IP)");
  CHECK(flags({{"ipvs-proxier/scheduler", "mh"}, {"ipvs-proxier/scheduler-flags", ""}}) ==
        "virtual service 10.96.0.9:80/TCP mh (cluster IP)");
}

TEST_CASE("the examples of kube-router's guide do what they say, or are told to do nothing") {
  std::istringstream lines(test::read_file(test::data_path("data/kube_router_annotations.txt")));
  auto options = heeding();
  options.differences.scheduler_fallback = true;
  std::size_t examples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    INFO(line);
    const auto end = line.find(' ');
    const auto equals = line.find('=');
    REQUIRE(equals < end);
    const auto expected = line.substr(line.find_first_not_of(' ', end));
    const auto service =
        annotated({{line.substr(0, equals), line.substr(equals + 1, end - equals - 1)}});
    const auto [settings, problems] = model::parse_settings(service);
    CHECK(problems.empty());
    CHECK(settings.notes.size() == (expected == "note" ? 1 : 0));
    CHECK(virtual_services(service, options).front() == "virtual service 10.96.0.9:80/TCP " +
                                                            (expected == "note" ? "rr" : expected) +
                                                            " (cluster IP)");
    ++examples;
  }
  CHECK(examples == 12);
}

TEST_CASE("annotations of one Service change nothing of another") {
  auto shop = test::node_port_service();
  shop.name.name = "shop";
  shop.cluster_ips = {test::ip("10.96.0.8")};
  const auto others_of = [&](std::vector<api::Annotation> annotations) {
    const auto web = annotated(std::move(annotations));
    const auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {e1(), e2()}), shop,
                                           test::slice_of(shop, 8080, {e1(), e2()}, "shop")});
    auto state = plan(cluster, test::vector_node(), heeding()).state;
    std::erase_if(state.services, [&](const auto& entry) {
      return entry.first.address == web.cluster_ips.front();
    });
    return state;
  };
  const auto alone = others_of({});
  REQUIRE_FALSE(alone.services.empty());
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"ipvs-proxier/affinity-mask", "1"},
           {"ipvs-proxier/drain-timeout", "1ns"},
           {"ipvs-proxier/max-connections", "1"},
           {"ipvs-proxier/metrics", "true"},
           {"ipvs-proxier/one-packet", "true"},
           {"ipvs-proxier/scheduler", "mh"},
           {"ipvs-proxier/scheduler-flags", "flag-1,flag-2,flag-3"},
           {"ipvs-proxier/weights", "local:65535,node=n2:0"},
           {"kube-router.io/service.dsr", "tunnel"},
           {"kube-router.io/service.hairpin", ""},
           {"kube-router.io/service.local", ""},
           {"kube-router.io/service.skiplbips", ""}}) {
    INFO(key);
    CHECK(others_of({{key, value}}) == alone);
  }
}

TEST_CASE("flags and limits of the node are those of Services that ask for none") {
  auto options = heeding();
  options.scheduler = "mh";
  options.scheduler_flags = netlink::kSchedulerFlag3;
  options.differences.scheduler_fallback = true;
  options.max_connections = {100, 80};
  const auto lines = [&](std::vector<api::Annotation> annotations) {
    return virtual_services(annotated(std::move(annotations)), options);
  };
  CHECK(lines({}) == Lines{"virtual service 10.96.0.9:80/TCP mh flags 0x20 (cluster IP)",
                           "  real server 10.244.0.3:8080 thresholds 100/80",
                           "  real server 10.244.1.4:8080 thresholds 100/80"});
  CHECK(lines({{"ipvs-proxier/max-connections", "0"}}).back() == "  real server 10.244.1.4:8080");
  CHECK(lines({{"ipvs-proxier/max-connections", "7"}}).back() ==
        "  real server 10.244.1.4:8080 thresholds 7/0");
  CHECK(lines({{"ipvs-proxier/scheduler", "mh"}, {"ipvs-proxier/scheduler-flags", ""}}).front() ==
        "virtual service 10.96.0.9:80/TCP mh (cluster IP)");
  // They are those of the node's scheduler.
  CHECK(lines({{"ipvs-proxier/scheduler", "sh"}}).front() ==
        "virtual service 10.96.0.9:80/TCP sh flags 0x8 (cluster IP)");
}

TEST_CASE("one packet a connection is for UDP ports only") {
  auto service = annotated({{"ipvs-proxier/one-packet", "true"}});
  service.ports.push_back({.name = "log", .protocol = Protocol::udp, .port = 514});
  const auto lines = starting(virtual_services(service), "virtual");
  CHECK(lines == Lines{"virtual service 10.96.0.9:80/TCP rr (cluster IP)",
                       "virtual service 10.96.0.9:514/UDP rr flags 0x4 (cluster IP)"});
}

TEST_CASE("a slice says the weight of its endpoints") {
  const auto service = annotated({{"ipvs-proxier/scheduler", "wrr"}});
  auto canary = test::slice_of(service, 8080, {e2()}, "canary");
  canary.weight = 5;
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()}), canary});
  const auto result = plan(cluster, test::vector_node(), heeding());
  const auto& planned = result.state.services.at({test::ip("10.96.0.9"), Protocol::tcp, 80});
  REQUIRE(planned.servers.size() == 2);
  CHECK(planned.server(0).weight == 1);
  CHECK(planned.server(1).weight == 5);
  CHECK(plan(cluster, test::vector_node(), test::vector_options())
            .state.services.at({test::ip("10.96.0.9"), Protocol::tcp, 80})
            .weights.empty());
}

Lines problems_of(const api::Service& service, const PlannerOptions& options = heeding()) {
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1(), e2()})});
  return test::lines_of(plan(cluster, test::vector_node(), options).problems);
}

TEST_CASE("weights under a scheduler that does not read them are told") {
  CHECK(problems_of(annotated({{"ipvs-proxier/weights", "local:4"}})) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/weights]: the "
              "scheduler rr does not look at weights; ipvs-proxier/scheduler: wrr does"});
  // 0 counts under every scheduler.
  CHECK(problems_of(annotated({{"ipvs-proxier/weights", "local:0"}})).empty());
  auto options = heeding();
  options.scheduler = "wlc";
  CHECK(problems_of(annotated({{"ipvs-proxier/weights", "local:4"}}), options).empty());
}

TEST_CASE("both families tell a problem of an annotation once") {
  auto service = annotated({{"ipvs-proxier/scheduler", "best"}});
  service.cluster_ips.push_back(test::ip("fd00:96::9"));
  service.ip_families.push_back(Family::ipv6);
  auto options = heeding();
  options.families = {Family::ipv4, Family::ipv6};
  CHECK(problems_of(service, options).size() == 1);
}

TEST_CASE("a Service that asks for a scheduler that the kernel lacks has the node's") {
  const auto service = annotated({{"ipvs-proxier/scheduler", "fo"}});
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1()})});
  Planner planner(heeding());
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  const auto scheduler = [&] {
    return std::string(planner.desired()
                           .services.at({test::ip("10.96.0.9"), Protocol::tcp, 80})
                           .service.scheduler.view());
  };
  CHECK(scheduler() == "fo");
  const auto again = planner.set_absent_schedulers({"fo"}, cluster);
  CHECK(again == std::set<api::NamespacedName>{service.name});
  planner.update(again, cluster);
  CHECK(scheduler() == "rr");
  CHECK(test::lines_of(planner.problems()) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/scheduler]: this "
              "kernel has no IPVS scheduler fo (module ip_vs_fo); the Service has the "
              "node's scheduler, rr"});
  planner.update(planner.set_absent_schedulers({}, cluster), cluster);
  CHECK(scheduler() == "fo");
}

TEST_CASE("a Service has so many tables of a scheduler, and with more the node's scheduler") {
  auto service = annotated({{"ipvs-proxier/scheduler", "mh"}});
  service.external_ips = {test::ip("198.51.100.1")};
  const auto scheduler_of = [&](std::size_t ports) {
    service.ports.clear();
    for (std::size_t i = 0; i < ports; ++i)
      service.ports.push_back({.name = "p" + std::to_string(i),
                               .protocol = Protocol::tcp,
                               .port = static_cast<std::uint16_t>(1000 + i),
                               .node_port = 0});
    const auto planned =
        plan(test::cluster_of({service}), test::vector_node(), heeding()).state.services;
    return std::string(
        planned.at({test::ip("10.96.0.9"), Protocol::tcp, 1000}).service.scheduler.view());
  };
  CHECK(scheduler_of(512) == "mh");
  CHECK(problems_of(service).empty());
  CHECK(scheduler_of(513) == "rr");
  CHECK(problems_of(service) ==
        Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/scheduler]: mh has "
              "a table for each address and port, and one Service gets 1024; the Service has the "
              "node's scheduler, rr"});
  service.annotations = {{"kube-router.io/service.scheduler", "lblcr"}};
  CHECK(scheduler_of(1024) == "lblcr");
  CHECK(scheduler_of(1025) == "rr");
  CHECK(
      problems_of(service).front().starts_with("warning: Service default/web: metadata."
                                               "annotations[kube-router.io/service.scheduler]"));
  service.annotations = {{"ipvs-proxier/scheduler", "wlc"}};
  CHECK(scheduler_of(1025) == "wlc");
  // Both families have the same answer.
  service.annotations = {{"ipvs-proxier/scheduler", "mh"}};
  service.cluster_ips.push_back(test::ip("fd00:96::9"));
  CHECK(scheduler_of(341) == "mh");
  CHECK(scheduler_of(342) == "rr");
}

// 1,024 tables of mh are 32 MiB: of Services that ask for so much a node has 8.
TEST_CASE("a node has so much memory for tables of schedulers, and namespaces share it") {
  const auto wide = [](const std::string& space, int number) {
    auto service = annotated({{"ipvs-proxier/scheduler", "mh"}});
    service.name = {space, "s" + std::to_string(number)};
    service.creation_time = number;
    service.cluster_ips = {
        test::ip("10.96." + std::to_string(space == "a" ? 1 : 2) + "." + std::to_string(number))};
    service.ports.clear();
    for (std::uint16_t port = 1; port <= 1024; ++port)
      service.ports.push_back({.name = "p" + std::to_string(port),
                               .protocol = Protocol::tcp,
                               .port = port,
                               .node_port = 0});
    return service;
  };
  model::ClusterState cluster;
  for (int number = 1; number <= 8; ++number) {
    const auto service = wide("a", number);
    cluster.put(service);
  }
  Planner planner(heeding());
  planner.set_node(test::vector_node());
  planner.update_all(cluster);
  const auto with_mh = [&](const std::string& space) {
    const auto prefix = test::prefix(space == "a" ? "10.96.1.0/24" : "10.96.2.0/24");
    return std::ranges::count_if(planner.desired().services, [&](const auto& one) {
      return one.first.port == 1 && prefix.contains(one.first.address) &&
             one.second.service.scheduler.view() == "mh";
    });
  };
  CHECK(with_mh("a") == 8);
  CHECK(planner.problems().empty());
  const auto small = wide("b", 1);
  cluster.put(small);
  planner.update({small.name}, cluster);
  CHECK(with_mh("b") == 1);
  CHECK(with_mh("a") == 7);
  CHECK(
      test::lines_of(planner.problems()) ==
      Lines{"warning: Service a/s8: metadata.annotations[ipvs-proxier/scheduler]: mh has a table "
            "for each address and port, all those of a node take 256 MiB at most, and this Service "
            "is beyond the share of its namespace; the Service has the node's scheduler, rr"});
  cluster.services.erase(small.name);
  planner.update({small.name}, cluster);
  CHECK(with_mh("a") == 8);
  CHECK(planner.problems().empty());
}

TEST_CASE("kube-router's local and skiplbips mean policies and addresses") {
  auto service = test::local_load_balancer();
  service.external_policy_local = false;
  const auto servers = [&](std::vector<api::Annotation> annotations) {
    return test::servers_of(
        test::planned(annotated(std::move(annotations), service), {e1(), e2()}, heeding()));
  };
  CHECK(servers({}).at("192.0.2.10:443/TCP").size() == 2);
  const auto local = servers({{"kube-router.io/service.local", ""}});
  for (const auto& [key, of_service] : local) CHECK(of_service == Lines{"10.244.0.3:8080"});
  CHECK_FALSE(servers({{"kube-router.io/service.skiplbips", ""}}).contains("192.0.2.10:443/TCP"));
}

// The operations from one set of annotations to another, in a kernel that has the first.
Lines changes(const std::vector<api::Annotation>& from, const std::vector<api::Annotation>& to) {
  const auto planned = [](const std::vector<api::Annotation>& annotations) {
    auto service = annotated(annotations);
    service.affinity_seconds = 60;
    const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, {e1(), e2()})});
    return plan(cluster, test::vector_node(), heeding()).state;
  };
  auto kernel = test::KernelModel::empty_for(planned(from));
  kernel.apply(diff(planned(from), kernel.state));
  Lines lines;
  std::istringstream text(to_text(diff(planned(to), kernel.state)));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("every annotation is changed in place, without a removal") {
  CHECK(changes({}, {{"ipvs-proxier/scheduler", "wlc"}}) ==
        Lines{"edit", "  edit virtual service 10.96.0.9:80/TCP wlc"});
  CHECK(changes({{"ipvs-proxier/affinity-mask", "24"}}, {}).size() == 2);
  CHECK(changes({}, {{"ipvs-proxier/weights", "local:4"}}) ==
        Lines{"edit",
              "  edit real server 10.244.0.3:8080 weight 4 of virtual service 10.96.0.9:80/TCP"});
  CHECK(changes({{"ipvs-proxier/max-connections", "9"}}, {}).size() == 3);
  CHECK(changes({}, {{"ipvs-proxier/drain-timeout", "9s"}}).empty());
}

}  // namespace
}  // namespace ipvsproxier::plan
