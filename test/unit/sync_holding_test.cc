// After a start an object cannot be read: what may be its, and what is not.

#include "proxier/sync/holding.h"

#include <algorithm>
#include <iterator>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using netlink::Protocol;
using test::ip;
using test::kE1;
using test::kE2;
using test::kWeb;

using Daemon = test::FakeDaemon;
using DumpLines = std::set<std::string>;

const netlink::VirtualServiceKey kShop{ip("10.96.0.8"), Protocol::tcp, 80};
const netlink::VirtualServiceKey kOld{ip("10.96.0.7"), Protocol::tcp, 80};

api::Service service(const std::string& ns, const std::string& name, const std::string& address) {
  auto service = test::web_service();
  service.name = {ns, name};
  service.cluster_ips = {ip(address)};
  return service;
}

// Only 10.9.0.0/16 may use its load balancer: not this node.
api::Service shop() {
  auto shop = service("default", "shop", "10.96.0.8");
  shop.type = api::ServiceType::load_balancer;
  shop.load_balancer_ips = {ip("192.0.2.8")};
  shop.source_ranges = {test::prefix("10.9.0.0/16")};
  shop.ports[0].node_port = 30008;
  return shop;
}

void add(model::ClusterState& cluster, const api::Service& service,
         const std::vector<api::Endpoint>& endpoints) {
  cluster.put(service);
  cluster.put(test::slice_of(service, 8080, endpoints));
}

void drop(model::ClusterState& cluster, const api::NamespacedName& service) {
  cluster.services.erase(service);
  cluster.slices.erase(service);
}

// default/web, and other/old.
model::ClusterState two() {
  auto cluster = test::web_with({test::e1(), test::e2()});
  add(cluster, service("other", "old", "10.96.0.7"), {test::e1(), test::e2()});
  return cluster;
}

// And default/shop.
model::ClusterState three() {
  auto cluster = two();
  add(cluster, shop(), {test::e1(), test::e2()});
  return cluster;
}

constexpr auto kService = api::ObjectKind::service;
constexpr auto kSlice = api::ObjectKind::endpoint_slice;

// Of `lines` those that are not in `others`, but for rules, which have numbers.
DumpLines without(const DumpLines& lines, const DumpLines& others) {
  DumpLines rest;
  std::set_difference(lines.begin(), lines.end(), others.begin(), others.end(),
                      std::inserter(rest, rest.end()));
  std::erase_if(rest, [](const std::string& line) { return line.starts_with("rule "); });
  return rest;
}

TEST_CASE("what an unreadable Service may have asked for before a start stays", "[holding]") {
  Daemon daemon;
  daemon.see(three());
  const auto before = daemon.dump();
  auto cluster = three();
  drop(cluster, {"default", "shop"});
  cluster.unreadable[{kService, {"default", "shop"}}] = "Service default/shop: is no JSON";
  daemon.restart();
  CHECK(daemon.see(cluster).settled);
  CHECK(daemon.says("objects that cannot be read: 1; 3 virtual services and 0 real servers"));
  CHECK(daemon.dump() == before);
  daemon.wait(70s);  // it is read back
  CHECK(daemon.dump() == before);

  SECTION("while what changes meanwhile is done, removals too") {
    add(cluster, service("other", "new", "10.96.0.6"), {test::e1()});
    daemon.see(cluster);
    drop(cluster, {"other", "new"});
    drop(cluster, {"other", "old"});
    test::edit_slice(cluster.slices.at({"default", "web"}), "web-1",
                     [](auto& slice) { slice.endpoints = std::vector{test::e1()}; });
    daemon.see(cluster);
    daemon.wait(40s);
    Daemon fresh;
    fresh.see(test::web_with({test::e1()}));
    const auto extra = without(daemon.dump(), fresh.dump());
    CHECK(std::none_of(extra.begin(), extra.end(), [](const std::string& line) {
      return line.find("10.96.0.7") != line.npos || line.find("10.96.0.6") != line.npos ||
             line.find("10.96.0.9") != line.npos;
    }));
    CHECK(without(fresh.dump(), daemon.dump()) == DumpLines{});
    CHECK(daemon.weights(kShop).size() == 2);
  }
  SECTION("until it can be read") {
    auto mended = three();
    auto other = shop();
    other.load_balancer_ips.clear();
    other.source_ranges.clear();
    other.type = api::ServiceType::cluster_ip;
    other.ports[0].node_port = 0;
    mended.put(other);
    daemon.see(mended);
    CHECK(daemon.differences() == DumpLines{});
  }
  SECTION("until it is gone") {
    daemon.see(two());
    CHECK(daemon.differences() == DumpLines{});
  }
  SECTION("what another asks for is that one's") {
    auto heir = service("other", "heir", "10.96.0.8");
    add(cluster, heir, {test::e1()});
    daemon.see(cluster);
    CHECK(daemon.weights(kShop) ==
          std::map<netlink::RealServerKey, std::uint32_t>{{kE1, 1}, {kE2, 0}});
    drop(cluster, {"other", "heir"});
    daemon.see(cluster);
    CHECK_FALSE(daemon.is_bound("10.96.0.8"));
    CHECK(daemon.is_bound("192.0.2.8"));
  }
  SECTION("nor does what filtered it filter the heir") {
    auto heir = shop();
    heir.name = {"other", "heir"};
    heir.source_ranges.clear();
    add(cluster, heir, {test::e1(), test::e2()});
    daemon.see(cluster);
    CHECK(daemon.differences() == DumpLines{});
  }
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("what guards a Service that can be read is as that one says", "[holding]") {
  Daemon daemon;
  daemon.see(three());
  // While nobody looked other ranges were allowed, and its node port is not local any more.
  auto cluster = three();
  auto other = shop();
  other.source_ranges = {test::prefix("10.8.0.0/16")};
  cluster.put(other);
  drop(cluster, {"other", "old"});
  cluster.unreadable[{kService, {"other", "old"}}] = "is no JSON";
  daemon.restart();
  daemon.see(cluster);
  auto expected = three();
  expected.put(other);
  Daemon fresh;
  fresh.see(expected);
  CHECK(daemon.dump() == fresh.dump());
}

TEST_CASE("real servers that are known late may be an unreadable EndpointSlice's too",
          "[holding]") {
  Daemon daemon;
  daemon.see(three());
  auto cluster = three();
  test::edit_slice(cluster.slices.at({"default", "web"}), "web-1",
                   [](auto& slice) { slice.endpoints = std::vector{test::e1()}; });
  cluster.unreadable[{kSlice, {"default", "web-2"}}] = "is no JSON";
  daemon.restart();
  daemon.ipvs.faults.fail("list real servers", {netlink::ErrorKind::io, 0, ""}, 1);
  daemon.see(cluster);
  daemon.wait(70s);
  CHECK(daemon.weights(kWeb).at(kE2) == 1);
}

TEST_CASE("what an unreadable EndpointSlice may have asked for are real servers", "[holding]") {
  Daemon daemon;
  daemon.see(three());
  // A Service went while nobody looked, and endpoints of the others.
  auto cluster = two();
  for (const auto& name : {api::NamespacedName{"default", "web"}, {"other", "old"}})
    test::edit_slice(cluster.slices.at(name), name.name + "-1",
                     [](auto& slice) { slice.endpoints = std::vector{test::e1()}; });
  const auto ns = GENERATE(as<std::string>(), "default", "");
  cluster.unreadable[{kSlice, {ns, ns.empty() ? "" : "web-2"}}] = "is no JSON";
  daemon.restart();
  daemon.see(cluster);
  CHECK(daemon.weights(kWeb).at(kE2) == 1);
  CHECK(daemon.weights(kOld).at(kE2) == (ns.empty() ? 1 : 0));
  CHECK_FALSE(daemon.is_bound("10.96.0.8"));
  CHECK_FALSE(daemon.is_bound("192.0.2.8"));

  cluster.unreadable.clear();
  daemon.see(cluster);
  CHECK(daemon.weights(kWeb).at(kE2) == 0);
  daemon.wait(40s);
  CHECK(daemon.differences() == DumpLines{});
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE("an object that becomes unreadable holds nothing but itself", "[holding]") {
  Daemon daemon;
  daemon.see(three());
  auto cluster = three();
  cluster.unreadable[{kService, {"default", "shop"}}] = "is no JSON";
  cluster.unreadable[{kService, {"evil", "new"}}] = "is no JSON";
  drop(cluster, {"other", "old"});
  daemon.see(cluster);
  CHECK(daemon.differences() == DumpLines{});
  CHECK(daemon.weights(kShop).size() == 2);
  // What it was before the sync began counts as well.
  SECTION("also at the start") {
    daemon.restart();
    cluster.unreadable.erase({kService, {"evil", "new"}});
    daemon.see(cluster);
    drop(cluster, {"default", "web"});
    daemon.see(cluster);
    CHECK(daemon.differences() == DumpLines{});
    CHECK_FALSE(daemon.says("cannot be read"));
  }
}

}  // namespace
}  // namespace ipvsproxier::sync
