#include "cmd/ipvsctl/names/cluster_names.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "proxier/inspect/name_page.h"
#include "test/support/cluster_builder.h"

namespace ipvsproxier::ctl {
namespace {

using netlink::Protocol;
using test::ip;

// A planner that has seen this cluster, on node n1.
class Planned {
 public:
  explicit Planned(model::ClusterState cluster)
      : cluster_(std::move(cluster)), planner_({.families = {netlink::Family::ipv4}}) {
    planner_.set_node(test::vector_node());
    std::set<api::NamespacedName> names;
    for (const auto& [name, service] : cluster_.services) names.insert(name);
    planner_.update(names, cluster_);
  }

  ClusterNames names(std::size_t bytes, inspect::ServiceQuery query = {},
                     std::size_t* pages = nullptr) {
    ClusterNames names;
    for (;;) {
      const auto next = names.take_page(inspect::name_page(cluster_, planner_, query, bytes));
      if (pages != nullptr) ++*pages;
      if (next.value().empty()) return names;
      query.after = inspect::parse_page_end(*next);
    }
  }
  std::string page(const std::string& after, std::size_t bytes) const {
    return inspect::name_page(cluster_, planner_, {.after = inspect::parse_page_end(after)}, bytes);
  }
  model::ClusterState& cluster() { return cluster_; }
  const model::ClusterState& cluster() const { return cluster_; }
  const plan::DesiredState& desired() const { return planner_.desired(); }
  const plan::Planner& planner() const { return planner_; }

 private:
  model::ClusterState cluster_;
  plan::Planner planner_;
};

api::Endpoint pod(const std::string& address, const std::string& name) {
  auto endpoint = test::endpoint(address, "n2");
  endpoint.zone = "z2";
  endpoint.target_name = name;
  return endpoint;
}

// default/web with all facets on two ports, its pods on 8080 and 8443.
model::ClusterState web_everywhere(std::vector<api::Endpoint> endpoints) {
  auto web = test::web_service();
  web.ports = {{.name = "http", .protocol = Protocol::tcp, .port = 80, .node_port = 30080},
               {.name = "https", .protocol = Protocol::tcp, .port = 443, .node_port = 0}};
  web.external_ips = {ip("192.0.2.7")};
  web.load_balancer_ips = {ip("198.51.100.7")};
  auto slice = test::slice_of(web, 8080, endpoints);
  slice.ports.push_back({"https", Protocol::tcp, 8443});
  return test::cluster_of({web, slice});
}

TEST_CASE("virtual services have the name of the port that they expose, and how they do") {
  const auto names = Planned(web_everywhere({pod("10.244.1.4", "web-1")})).names(0);
  const auto text = [&](const char* address, std::uint16_t port) {
    const auto name = names.of({ip(address), Protocol::tcp, port});
    return name ? to_string(*name) + ", " + std::string(ipset::to_string(name->facet)) : "";
  };
  CHECK(text("10.96.0.9", 80) == "default/web:http, cluster IP");
  CHECK(text("10.96.0.9", 443) == "default/web:https, cluster IP");
  CHECK(text("192.0.2.7", 443) == "default/web:https, external IP");
  CHECK(text("198.51.100.7", 80) == "default/web:http, load balancer");
  CHECK(text("10.0.0.1", 30080) == "default/web:http, node port");
  CHECK(text("10.0.0.1", 80).empty());
  CHECK_FALSE(names.of({ip("10.96.0.9"), Protocol::udp, 80}));
  CHECK_FALSE(names.of({.address = ip("0.0.0.0"), .fwmark = 7}));
}

TEST_CASE("virtual services of other programs are told once, unless some Services are asked for") {
  const Planned planned(web_everywhere({pod("10.244.1.4", "web-1")}));
  const netlink::VirtualServiceKey key{ip("192.0.2.10"), Protocol::udp, 53};
  const auto ask = [&](const inspect::ServiceQuery& query) {
    ClusterNames names;
    const auto page = inspect::name_page(planned.cluster(), planned.planner(), query, 0, {key});
    CHECK(names.take_page(page));
    return names.is_foreign(key);
  };
  CHECK_FALSE(ask({.ns = "default"}));
  CHECK(ask({}));
  for (const auto* row : {R"(["192.0.2.10",80])", R"(["x",80,"TCP"])", R"([])", "7"}) {
    ClusterNames names;
    CHECK_FALSE(names.take_page(std::string(R"({"services":[],"foreign":[)") + row +
                                R"(],"continue":""})"));
  }
}

TEST_CASE("the name of an unnamed port is its Service's") {
  const auto names = Planned(test::web_with({test::e1()})).names(0);
  CHECK(to_string(names.of(test::kWeb).value()) == "default/web");
}

TEST_CASE("real servers have the names of the endpoints behind them") {
  auto leaving = pod("10.244.1.5", "web-2");
  leaving.ready = false;
  leaving.terminating = true;
  const auto names = Planned(web_everywhere({pod("10.244.1.4", "web-1"), leaving})).names(0);
  for (const auto port : {std::uint16_t{8080}, std::uint16_t{8443}}) {
    const auto server = names.of(test::kWeb, {ip("10.244.1.4"), port});
    REQUIRE(server);
    CHECK(*server == ServerName{.pod = "web-1", .node = "n2", .zone = "z2"});
    CHECK(condition_text(*server).empty());
  }
  CHECK(condition_text(names.of(test::kWeb, {ip("10.244.1.5"), 8080}).value()) == "terminating");
  CHECK_FALSE(names.of(test::kWeb, {ip("10.244.1.4"), 9999}));
  CHECK_FALSE(names.of(test::kWeb, {ip("10.244.1.6"), 8080}));
  CHECK_FALSE(names.of({ip("10.96.0.10"), Protocol::tcp, 80}, {ip("10.244.1.4"), 8080}));
}

TEST_CASE("pods that share their node's address are told apart by their ports") {
  auto web = test::web_service();
  auto cluster = test::cluster_of({web, test::slice_of(web, 8080, {pod("10.0.0.2", "a")}, "1"),
                                   test::slice_of(web, 8081, {pod("10.0.0.2", "b")}, "2")});
  const auto names = Planned(std::move(cluster)).names(0);
  CHECK(names.of(test::kWeb, {ip("10.0.0.2"), 8080}).value().pod == "a");
  CHECK(names.of(test::kWeb, {ip("10.0.0.2"), 8081}).value().pod == "b");
  CHECK(names.of_address(ip("10.0.0.2")).empty());
}

TEST_CASE("an endpoint that two slices have is named as it is planned") {
  auto web = test::web_service();
  auto old = pod("10.244.1.4", "old");
  old.terminating = GENERATE(false, true);
  const bool ending_last = GENERATE(false, true);
  auto cluster = test::cluster_of(
      {web, test::slice_of(web, 8080, {ending_last ? pod("10.244.1.4", "new") : old}, "1"),
       test::slice_of(web, 8080, {ending_last ? old : pod("10.244.1.4", "new")}, "2")});
  const auto names = Planned(std::move(cluster)).names(0);
  CHECK(names.of(test::kWeb, {ip("10.244.1.4"), 8080}).value().pod ==
        (ending_last && !old.terminating ? "old" : "new"));
}

TEST_CASE("who has a virtual service that two ask for gives it its name") {
  auto older = test::web_service();
  older.creation_time = 1;
  auto younger = older;
  younger.name = {"default", "api"};
  younger.creation_time = 2;
  younger.ports.push_back({.name = "more", .protocol = Protocol::tcp, .port = 81});
  Planned planned(test::cluster_of({older, younger}));
  const auto names = planned.names(0);
  CHECK(names.of(test::kWeb).value().service == "web");
  CHECK(names.of({ip("10.96.0.9"), Protocol::tcp, 81}).value().service == "api");
  CHECK(names.of_address(ip("10.96.0.9")).empty());
}

TEST_CASE("addresses have names of their own") {
  const auto names = Planned(web_everywhere({pod("10.244.1.4", "web-1")})).names(0);
  CHECK(names.of_address(ip("10.244.1.4")) == "default/web-1");
  CHECK(names.of_address(ip("192.0.2.7")) == "default/web");
  CHECK(names.of_address(ip("10.9.9.9")).empty());
  // The node is no Service, though a node port is there.
  REQUIRE(names.of({ip("10.0.0.1"), Protocol::tcp, 30080}));
  CHECK(names.of_address(ip("10.0.0.1")).empty());
}

TEST_CASE("names are complete whatever the size of a page, and may be some Services' alone") {
  auto cluster = web_everywhere({pod("10.244.1.4", "web-1")});
  for (std::uint8_t i = 1; i < 20; ++i) {
    auto service = test::web_service();
    service.name = {i < 10 ? "a" : "b", "s" + std::to_string(i)};
    service.cluster_ips = {ip("10.96.1." + std::to_string(i))};
    cluster.put(test::slice_of(service, 8080, {pod("10.244.2." + std::to_string(i), "p")}));
    cluster.put(std::move(service));
  }
  auto headless = test::web_service();
  headless.name = {"a", "s99"};
  headless.headless = true;
  cluster.put(headless);
  Planned planned(std::move(cluster));
  std::size_t pages = 0;
  const auto whole = planned.names(1 << 20, {}, &pages);
  CHECK(pages == 1);
  pages = 0;
  const auto parts = planned.names(0, {}, &pages);
  CHECK(pages == 20);
  for (const auto* names : {&whole, &parts})
    for (const auto& [key, service] : planned.desired().services) {
      const auto name = names->of(key);
      REQUIRE(name);
      CHECK(api::NamespacedName{std::string(name->ns), std::string(name->service)} ==
            *planned.planner().owner_of(key));
      CHECK(name->facet == service.facet);
      for (const auto& server : service.servers) CHECK(names->of(key, server));
    }
  CHECK(planned.names(0, {.ns = "b"}).virtuals().size() == 10);
  CHECK(planned.names(0, {.service = api::NamespacedName{"a", "s3"}}).virtuals().size() == 1);
  CHECK(planned.names(0, {.service = api::NamespacedName{"a", "s33"}}).empty());
}

// default/web with so many slices, named web-100, web-101, ...: neighbours share an address, which
// terminates in one of them, and the other addresses of all slices are mixed. default/zz is behind.
model::ClusterState web_in_slices(int slices, int endpoints) {
  const auto web = test::web_service();
  auto behind = web;
  behind.name.name = "zz";
  behind.cluster_ips = {ip("10.96.0.99")};
  auto cluster =
      test::cluster_of({web, behind, test::slice_of(behind, 8080, {pod("10.244.9.9", "behind")})});
  for (int i = 0; i < slices; ++i) {
    std::vector<api::Endpoint> own;
    for (int n = 0; n < endpoints; ++n)
      own.push_back(pod(fmt::format("10.245.{}.{}", n, 200 - i), fmt::format("p{}-{}", i, n)));
    own.push_back(pod(fmt::format("10.246.0.{}", i / 2), fmt::format("shared-{}", i)));
    own.back().terminating = i % 4 == 1;
    cluster.put(test::slice_of(web, i % 3 == 0 ? 8081 : 8080, own, std::to_string(100 + i)));
  }
  return cluster;
}

std::vector<std::string> all_endpoints(const ClusterNames& names) {
  std::vector<std::string> all;
  names.each_endpoint([&](const auto& service, const auto& address, const auto& ports) {
    for (const auto port : ports)
      all.push_back(to_string(service) + " " + to_string(address, port));
  });
  return all;
}

TEST_CASE("a Service is cut between slices, and is whole again when its parts are joined") {
  Planned planned(web_in_slices(30, 20));
  std::size_t pages = 0;
  const auto whole = planned.names(1 << 20, {}, &pages);
  REQUIRE(pages == 1);
  const auto bytes = GENERATE(std::size_t{0}, std::size_t{3000}, std::size_t{20000});
  pages = 0;
  const auto parts = planned.names(bytes, {}, &pages);
  if (bytes == 0) CHECK(pages == 31);
  CHECK(pages > 1);
  CHECK(all_endpoints(parts) == all_endpoints(whole));
  CHECK(all_endpoints(parts).size() == 30 * 21 + 1);
  CHECK(parts.virtuals().size() == 2);
  int services = 0;
  parts.each_service([&](const auto&, auto) { ++services; });
  CHECK(services == 2);
  for (const auto& [key, service] : planned.desired().services)
    for (const auto& server : service.servers) {
      REQUIRE(whole.of(key, server));
      CHECK(parts.of(key, server) == whole.of(key, server));
    }
  pages = 0;
  CHECK(all_endpoints(
            planned.names(bytes, {.service = api::NamespacedName{"default", "web"}}, &pages))
            .size() == 30 * 21);
  if (bytes == 0) CHECK(pages == 30);
}

TEST_CASE("a page of names is longer than asked for by no more than a slice") {
  Planned planned(web_in_slices(30, 20));
  const auto sizes = [&](std::size_t bytes) {
    std::vector<std::size_t> all;
    std::string after;
    do {
      const auto page = planned.page(after, bytes);
      all.push_back(page.size());
      after = ClusterNames().take_page(page).value();
    } while (!after.empty());
    return all;
  };
  const auto slice = std::ranges::max(sizes(0));
  const auto pages = sizes(8000);
  CHECK(pages.size() > 2);
  CHECK(std::ranges::max(pages) <= 8000 + slice);
  CHECK(*std::ranges::min_element(pages.begin(), pages.end() - 1) > 8000);
}

TEST_CASE("slices may come and go between two pages of a Service") {
  Planned planned(web_in_slices(6, 1));
  auto& slices = planned.cluster().slices.at({"default", "web"});
  ClusterNames names;
  auto next = names.take_page(planned.page("", 0)).value();
  CHECK(next == "default/web/web-100");
  for (const char* gone : {"web-100", "web-101"}) slices.erase(std::string(gone));
  next = names.take_page(planned.page(next, 0)).value();
  CHECK(next == "default/web/web-102");
  slices.insert_or_assign(
      test::slice_of(test::web_service(), 8080, {pod("10.1.1.1", "new")}, "1025"));
  slices.insert_or_assign(
      test::slice_of(test::web_service(), 8080, {pod("10.1.1.2", "before")}, "1015"));
  next = names.take_page(planned.page(next, 0)).value();
  CHECK(next == "default/web/web-1025");
  slices = {};
  next = names.take_page(planned.page(next, 0)).value();
  CHECK(next == "default/web");
  CHECK(names.take_page(planned.page(next, 0)).value().empty());
  CHECK(all_endpoints(names) ==
        std::vector<std::string>{"default/web 10.1.1.1:8080", "default/web 10.245.0.198:8080",
                                 "default/web 10.245.0.200:8081", "default/web 10.246.0.0:8081",
                                 "default/web 10.246.0.1:8080", "default/zz 10.244.9.9:8080"});
}

TEST_CASE("a Service that goes between two of its pages ends, and the next ones follow") {
  Planned planned(web_in_slices(3, 1));
  ClusterNames names;
  const auto next = names.take_page(planned.page("", 0)).value();
  planned.cluster().services.erase({"default", "web"});
  planned.cluster().slices.erase({"default", "web"});
  CHECK(names.take_page(planned.page(next, 0)).value().empty());
  CHECK(all_endpoints(names).back() == "default/zz 10.244.9.9:8080");
  CHECK(all_endpoints(names).size() == 3);
}

TEST_CASE("what is no page of names is said to be none") {
  ClusterNames names;
  for (const char* text :
       {"", "[]", "{}", R"({"services":[]})", R"({"services":[{}],"continue":""})",
        R"({"services":[{"namespace":"a","name":"b","virtual":[["10.0.0.1"]],"slices":[]}],)"
        R"("continue":""})",
        R"({"services":[{"namespace":"a","name":"b","virtual":[["10.0.0.1",65536,"TCP","",)"
        R"("cluster IP"]],"slices":[]}],"continue":""})",
        R"({"services":[{"namespace":"a","name":"b","healthCheckNodePort":65536,"virtual":[],)"
        R"("slices":[]}],"continue":""})",
        R"({"services":[{"namespace":"a","name":"b","virtual":[],"slices":[{"ports":["x"],)"
        R"("endpoints":[]}]}],"continue":""})"}) {
    INFO(text);
    CHECK_FALSE(names.take_page(text));
  }
  CHECK(names.empty());
  CHECK(names.take_page(R"({"services":[],"continue":""})"));
}

TEST_CASE("names with any characters are carried whole") {
  auto web = test::web_service();
  web.name.name = "w\"e\\b\xc3\xa9";
  web.ports[0].name = "h\n";
  const auto names = Planned(test::cluster_of({web})).names(0);
  CHECK(to_string(names.of(test::kWeb).value()) == "default/w\"e\\b\xc3\xa9:h\n");
}

}  // namespace
}  // namespace ipvsproxier::ctl
