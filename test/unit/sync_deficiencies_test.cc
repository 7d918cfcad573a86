// What kube-proxy's IPVS mode does wrong over time (docs/kube-proxy.md, section 19), on fakes: each
// case fails on kube-proxy's behaviour. The tag [item-N] names the item, here as in other files.

#include <algorithm>
#include <array>
#include <cerrno>

#include <catch2/catch.hpp>

#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using ipset::SetId;
using netlink::Family;
using netlink::Flow;
using netlink::IpAddress;
using netlink::Operation;
using netlink::Protocol;
using test::FakeDaemon;
using test::ip;
using test::kE1;
using test::kE2;
using test::kWeb;
using test::web_with;
using Lines = std::vector<std::string>;
using Weights = std::map<netlink::RealServerKey, std::uint32_t>;

const Weights kBothServe = {{kE1, 1}, {kE2, 1}};

// Removals of virtual services and real servers that the kernel is asked for from now on.
class Removals {
 public:
  explicit Removals(FakeDaemon& daemon) {
    daemon.ipvs.after = [this, before = daemon.ipvs.after](const netlink::IpvsOp& op) {
      before(op);
      if (std::holds_alternative<netlink::DeleteService>(op) ||
          std::holds_alternative<netlink::DeleteServer>(op))
        seen.push_back(to_string(op));
    };
  }
  Removals(const Removals&) = delete;
  Removals& operator=(const Removals&) = delete;

  Lines seen;
};

// What makes kube-proxy give up a whole sync: damage, and the operation that fails on it.
struct Abort {
  const char* operation;
  test::FaultInjector& (*faults)(FakeDaemon&);
  void (*damage)(FakeDaemon&);
};

const std::array kAborts = {
    Abort{"create dummy link",
          [](FakeDaemon& daemon) -> test::FaultInjector& { return daemon.links.faults; },
          [](FakeDaemon& daemon) { daemon.links.remove_link(plan::kDummyLink); }},
    Abort{"make set KUBE-CLUSTER-IP",
          [](FakeDaemon& daemon) -> test::FaultInjector& { return daemon.sets.faults; },
          [](FakeDaemon& daemon) { REQUIRE(daemon.sets.destroy("KUBE-CLUSTER-IP")); }},
    Abort{"write IPv4 nat",
          [](FakeDaemon& daemon) -> test::FaultInjector& { return daemon.rules.faults; },
          [](FakeDaemon& daemon) {
            daemon.rules.edit(Family::ipv4, ipset::Table::nat, "-F KUBE-SERVICES");
          }},
};

TEST_CASE("a sync that fails is tried again by itself, and owes what it took up",
          "[item-2][item-3]") {
  const auto& abort = kAborts.at(GENERATE(0U, 1U, 2U));
  INFO(abort.operation);
  const std::chrono::system_clock::time_point changed{1'700'000'000s};
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}, Protocol::udp));
  const auto flow = [&](std::uint16_t port, const netlink::RealServerKey& server) {
    return daemon.conntrack.track({ip("10.1.0.1"), port}, {ip("10.96.0.9"), 80},
                                  {server.address, server.port});
  };
  const auto stays = flow(4000, kE1);
  flow(4001, kE2);
  abort.damage(daemon);
  abort.faults(daemon).fail(abort.operation, netlink::make_error(Operation::generic, EBUSY, ""), 2);
  daemon.restart();
  auto cluster = web_with({test::e1()}, Protocol::udp);
  test::edit_slice(cluster.slices.at({"default", "web"}), "web-1",
                   [&](auto& slice) { slice.trigger.time = changed; });
  auto report = daemon.see(cluster);
  CHECK(report.failures > 0);
  CHECK_FALSE(report.settled);
  // Nothing happens that could ask for another sync, and a period is 30 s.
  auto programmed = report.programmed;
  for (int i = 0; i < 100; ++i) {
    report = daemon.wait(100ms);
    programmed.insert(programmed.end(), report.programmed.begin(), report.programmed.end());
  }
  CHECK(daemon.differences().empty());
  CHECK(daemon.conntrack.list({.family = Family::ipv4}).value() == std::vector{stays});
  REQUIRE(programmed.size() == 1);
  CHECK(programmed.front() == model::Trigger{{"default", "web"}, Family::ipv4, changed});
}

// default/shop on 10.96.0.8, beside web.
model::ClusterState with_shop() {
  auto cluster = web_with({test::e1(), test::e2()});
  auto shop = test::web_service();
  shop.name.name = "shop";
  shop.cluster_ips = {ip("10.96.0.8")};
  cluster.put(shop);
  cluster.put(test::slice_of(shop, 8080, {test::e1(), test::e2()}));
  return cluster;
}

TEST_CASE("a virtual service that could not be asked for is not taken for absent", "[item-8]") {
  const std::string query = GENERATE("list virtual services", "list real servers");
  INFO(query);
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  const Removals removals(daemon);
  daemon.ipvs.faults.fail(query, netlink::make_error(Operation::ipvs_service, ENOBUFS, ""));
  const bool by_a_new_process = GENERATE(false, true);
  if (by_a_new_process) daemon.restart();
  daemon.see(with_shop());
  daemon.wait(100s);
  CHECK(daemon.fault_hits() > 0);
  CHECK(removals.seen == Lines{});
  daemon.clear_faults();
  CHECK(daemon.weights(kWeb) == kBothServe);
  daemon.wait(31s);
  CHECK(daemon.differences().empty());
  CHECK(removals.seen == Lines{});
}

TEST_CASE("a virtual service stays though adding it, or binding its address, fails", "[item-8]") {
  const netlink::VirtualServiceKey shop{ip("10.96.0.8"), Protocol::tcp, 80};
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  const Removals removals(daemon);
  SECTION("it is there already, which nobody told us") {
    const std::vector<netlink::IpvsOp> others = {
        netlink::AddService{{.key = shop, .scheduler = "rr"}},
        netlink::AddServer{shop, {.key = kE1, .weight = 1}}};
    for (const auto& status : daemon.ipvs.apply(others)) REQUIRE(status);
    daemon.see(with_shop());
    daemon.wait(1s);
    CHECK(daemon.weights(shop) == kBothServe);
  }
  SECTION("others took its address, and it cannot be bound again") {
    const std::vector<netlink::AddressOp> others = {{false, ip("10.96.0.9")}};
    REQUIRE(daemon.links.apply(plan::kDummyLink, others).at(0));
    daemon.links.faults.fail("add address", netlink::make_error(Operation::address, ENOMEM, ""));
    daemon.see(with_shop());
    daemon.wait(100s);
    CHECK(daemon.weights(kWeb) == kBothServe);
    daemon.clear_faults();
  }
  daemon.wait(31s);
  CHECK(removals.seen == Lines{});
  CHECK(daemon.differences().empty());
}

TEST_CASE("a real server that drained when its Service went is not removed once it is back",
          "[item-9]") {
  FakeDaemon daemon;
  daemon.see(web_with({test::e1(), test::e2()}));
  daemon.ipvs.set_connections(kWeb, kE2, 1, 0);
  daemon.see(web_with({test::e1()}));
  REQUIRE(daemon.weights(kWeb).at(kE2) == 0);
  daemon.wait(GENERATE(0s, 3s));
  daemon.see(model::ClusterState{});
  REQUIRE_FALSE(daemon.ipvs.contains(kWeb));
  daemon.wait(GENERATE(0s, 3s));
  daemon.see(web_with({test::e1(), test::e2()}));
  CHECK(daemon.weights(kWeb) == kBothServe);
  const Removals removals(daemon);
  const auto writes = daemon.writes();
  daemon.wait(200s);
  CHECK(removals.seen == Lines{});
  CHECK(daemon.writes() == writes);
}

TEST_CASE("what others did to one real server costs one write, at any time", "[item-11]") {
  const auto e3 = test::endpoint("10.244.1.5", "n2");
  const auto cluster = web_with({test::e1(), test::e2(), e3});
  FakeDaemon daemon;
  daemon.see(cluster);
  const netlink::RealServer other{.key = kE1, .weight = 7, .upper_threshold = GENERATE(0U, 9U)};
  const std::vector<netlink::IpvsOp> others = {netlink::EditServer{kWeb, other}};
  const auto wrong = [&] { REQUIRE(daemon.ipvs.apply(others).at(0)); };
  wrong();
  daemon.restart();
  CHECK(daemon.see(cluster).written == Written{.ipvs = 1});
  CHECK(daemon.weights(kWeb).at(kE1) == 1);
  wrong();
  CHECK(daemon.wait(31s).written == Written{.ipvs = 1});
  CHECK(daemon.differences().empty());
}

// Of every address that is in KUBE-IPVS-IPS, whether something lets it in: kept up with every
// operation on elements.
class Doors {
 public:
  explicit Doors(FakeDaemon& daemon) {
    daemon.sets.after = [this, &daemon, before = daemon.sets.after](const std::string& set,
                                                                    const ipset::ElementOp& op) {
      before(set, op);
      note(set, op.element, daemon.sets.contains(set, op.element));
      for (const auto& address : listed_)
        if (!lets_in(address)) closed.push_back(address.to_string() + " after one in " + set);
    };
  }
  Doors(const Doors&) = delete;
  Doors& operator=(const Doors&) = delete;

  std::size_t listed() const { return listed_.size(); }
  Lines closed;

 private:
  void note(const std::string& set, const ipset::Element& element, bool present) {
    if (set == ipset::set_name(SetId::ipvs_ips, Family::ipv4))
      keep(listed_, std::get<ipset::IpElement>(element).ip, present);
    for (const auto id :
         {SetId::cluster_ip, SetId::external_ip, SetId::external_ip_local, SetId::load_balancer})
      if (set == ipset::set_name(id, Family::ipv4))
        keep(doors_, {set, std::get<ipset::IpPortElement>(element)}, present);
  }
  template <typename T>
  static void keep(std::set<T>& all, const std::type_identity_t<T>& one, bool present) {
    if (present)
      all.insert(one);
    else
      all.erase(one);
  }
  bool lets_in(const IpAddress& address) const {
    return std::any_of(doors_.begin(), doors_.end(),
                       [&](const auto& door) { return door.second.ip == address; });
  }

  std::set<IpAddress> listed_;
  std::set<std::pair<std::string, ipset::IpPortElement>> doors_;
};

api::Service balancer(int number) {
  auto service = test::web_service();
  service.name.name = "balancer-" + std::to_string(number);
  service.type = api::ServiceType::load_balancer;
  service.cluster_ips = {ip("10.96.1." + std::to_string(number))};
  service.external_ips = {ip("198.51.100." + std::to_string(number))};
  service.load_balancer_ips = {ip("192.0.2." + std::to_string(number))};
  service.ports[0].node_port = static_cast<std::uint16_t>(30000 + number);
  service.source_ranges = {test::prefix("203.0.113.0/24")};
  return service;
}

TEST_CASE("an address that unknown ports are rejected of is let in by a set of its own",
          "[item-15]") {
  FakeDaemon daemon;
  const Doors doors(daemon);
  auto service = balancer(1);
  const auto with = [&](const api::Service& one) {
    return test::cluster_of({one, test::slice_of(one, 8080, {test::e1(), test::e2()})});
  };
  // Every step is watched by FakeDaemon::watch too: what is shown is guarded, what is guarded
  // shown.
  CHECK(daemon.see(with(service)).settled);
  CHECK(doors.listed() == 3);
  service.external_policy_local = true;  // moves to other sets
  CHECK(daemon.see(with(service)).settled);
  service.load_balancer_ips = {service.external_ips[0]};
  service.external_ips = {ip("192.0.2.1")};
  CHECK(daemon.see(with(service)).settled);
  service.ports[0].port = 81;
  CHECK(daemon.see(with(service)).settled);
  CHECK(daemon.see(model::ClusterState{}).settled);
  CHECK(doors.listed() == 0);
  CHECK(doors.closed == Lines{});
  CHECK(daemon.watch.broken == Lines{});
}

// All rules, each with its place in its chain.
Lines rules_of(FakeDaemon& daemon) {
  Lines lines;
  for (const auto& line : daemon.dump())
    if (line.rfind("rule ", 0) == 0) lines.push_back(line);
  return lines;
}

TEST_CASE("rules have one order, however the cluster came to be", "[item-16]") {
  std::vector<int> numbers = {1, 2, 3, 4, 5, 6};
  Lines expected;
  for (int round = 0; round < 5; ++round) {
    INFO("round " << round);
    FakeDaemon daemon;
    model::ClusterState cluster;
    for (const int number : numbers) {
      cluster.put(balancer(number));
      daemon.see(cluster);
    }
    for (const int number : {numbers[3], numbers[1]}) {  // go and come back
      auto fewer = cluster;
      fewer.services.erase(balancer(number).name);
      daemon.see(fewer);
      daemon.see(cluster);
    }
    const auto rules = rules_of(daemon);
    if (expected.empty()) expected = rules;
    CHECK(rules == expected);
    std::rotate(numbers.begin(), numbers.begin() + 1, numbers.end());
    std::swap(numbers[0], numbers[4]);
  }
  CHECK(std::count_if(expected.begin(), expected.end(), [](const std::string& line) {
          return line.find("KUBE-IPVS-OUT-FILTER") != std::string::npos;
        }) == 8);  // a jump, one each, and what returns before
}

TEST_CASE("flows to the number of a node port elsewhere are left alone", "[item-19]") {
  auto dns = test::web_service();
  dns.type = api::ServiceType::node_port;
  dns.ports[0].protocol = Protocol::udp;
  dns.ports[0].node_port = 30053;
  const auto with = [&](std::vector<api::Endpoint> endpoints) {
    return test::cluster_of({dns, test::slice_of(dns, 8080, std::move(endpoints))});
  };
  FakeDaemon daemon;
  daemon.see(with({test::e1(), test::e2()}));
  std::uint16_t source = 4000;
  const auto flow = [&](const char* to, const netlink::FlowEnd& answered_by) {
    return daemon.conntrack.track({ip("10.1.0.1"), ++source}, {ip(to), 30053}, answered_by);
  };
  const netlink::FlowEnd e1{kE1.address, kE1.port};
  const netlink::FlowEnd e2{kE2.address, kE2.port};
  std::vector<Flow> others = {flow("10.0.0.1", e1), flow("203.0.113.5", {ip("203.0.113.5"), 30053}),
                              flow("10.244.0.9", {ip("10.244.0.9"), 30053}), flow("10.0.0.2", e2)};
  flow("10.0.0.1", e2);
  CHECK(daemon.see(with({test::e1()})).flows == 1);
  auto left = daemon.conntrack.list({.family = Family::ipv4}).value();
  std::sort(left.begin(), left.end());
  std::sort(others.begin(), others.end());
  CHECK(left == others);
}

TEST_CASE("this node's zone counts whenever it becomes known", "[item-20]") {
  auto near = test::e1();
  near.zone_hints = {"z1"};
  auto far = test::e2();
  far.zone_hints = {"z2"};
  auto objects = web_with({near, far});
  model::ClusterState node;
  node.node = api::Node{.name = "n1", .zone = "z1", .internal_ips = {ip("10.0.0.1")}};
  auto both = objects;
  both.node = node.node;
  FakeDaemon daemon;
  SECTION("before the objects") {
    daemon.see(node);
  }
  SECTION("after them") {
    daemon.see(objects);
    CHECK(daemon.weights(kWeb) == kBothServe);
  }
  SECTION("with them") {}
  daemon.see(both);
  daemon.wait(10s);
  CHECK(daemon.weights(kWeb) == Weights{{kE1, 1}});
}

}  // namespace
}  // namespace ipvsproxier::sync
