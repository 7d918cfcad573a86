#include "proxier/plan/diff.h"

#include <algorithm>

#include <catch2/catch.hpp>

#include "ipset/sets/set_catalog.h"
#include "proxier/plan/planner.h"
#include "test/support/cluster_builder.h"
#include "test/support/kernel_model.h"
#include "test/unit/plan_options.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::ip;
using test::kWeb;

DesiredState desired_of(const model::ClusterState& cluster) {
  auto options = test::options_v4();
  options.cluster_cidrs = {test::prefix("10.244.0.0/16")};
  return plan(cluster, test::vector_node(), options).state;
}

DesiredState desired_for(const api::Service& service, std::vector<api::Endpoint> endpoints) {
  return desired_of(
      test::cluster_of({service, test::slice_of(service, 8080, std::move(endpoints))}));
}

test::KernelModel holding(const DesiredState& desired) {
  auto kernel = test::KernelModel::empty_for(desired);
  kernel.apply(diff(desired, kernel.state));
  REQUIRE(diff(desired, kernel.state).empty());
  return kernel;
}

const netlink::RealServer& server_in(const test::KernelModel& kernel,
                                     const netlink::VirtualServiceKey& service,
                                     const std::string& address) {
  const auto& servers = kernel.state.services->at(service).servers.value();
  const auto it = servers.find(netlink::RealServerKey{ip(address), 8080});
  REQUIRE(it != servers.end());
  return *it;
}

void set_weight(test::KernelModel& kernel, const netlink::VirtualServiceKey& service,
                const std::string& address, std::uint32_t weight) {
  auto server = server_in(kernel, service, address);
  server.weight = weight;
  kernel.state.commit(netlink::EditServer{service, server});
}

std::vector<std::string> phase_names(const Transaction& transaction) {
  std::vector<std::string> names;
  for (const auto& phase : transaction.phases) names.emplace_back(phase.name);
  return names;
}

TEST_CASE("a first sync comes in this order", "[item-15]") {
  auto service = test::web_service();
  const auto desired = desired_for(service, {test::e1()});
  const auto kernel = test::KernelModel::empty_for(desired);
  CHECK(phase_names(diff(desired, kernel.state)) ==
        std::vector<std::string>{"make sets", "prepare rules", "add elements",
                                 "add virtual services", "add addresses"});
}

TEST_CASE("the API server and the cluster DNS come before the others") {
  auto dns = test::web_service();
  dns.name = {"kube-system", "kube-dns"};
  dns.ports = {{"dns", Protocol::udp, 53, 0}};
  dns.cluster_ips = {ip("10.96.0.10")};
  auto kubernetes = test::web_service();
  kubernetes.name = {"default", "kubernetes"};
  kubernetes.cluster_ips = {ip("10.96.0.1")};
  const auto cluster = test::cluster_of({test::web_service(), dns, kubernetes});
  const auto desired = plan(cluster, test::vector_node(), test::options_v4()).state;
  const auto transaction = diff(desired, test::KernelModel::empty_for(desired).state);
  REQUIRE(phase_names(transaction).at(3) == "add first virtual services");
  const auto& first = std::get<std::vector<netlink::IpvsOp>>(transaction.phases.at(3).work);
  CHECK(first.size() == 2);
  const auto& addresses = std::get<std::vector<BindingOp>>(transaction.phases.at(4).work);
  CHECK(addresses == std::vector<BindingOp>{{true, {ip("10.96.0.1")}}, {true, {ip("10.96.0.10")}}});
  CHECK(phase_names(transaction).at(5) == "add virtual services");
}

TEST_CASE("a leaving TCP real server gets weight 0 and stays until somebody saw it idle") {
  const auto both = desired_for(test::web_service(), {test::e1(), test::e2()});
  const auto one = desired_for(test::web_service(), {test::e1()});
  auto kernel = holding(both);
  const auto transaction = diff(one, kernel.state);
  REQUIRE(phase_names(transaction) == std::vector<std::string>{"drain"});
  kernel.apply(transaction);
  CHECK(server_in(kernel, kWeb, "10.244.1.4").weight == 0);
  CHECK(diff(one, kernel.state).empty());

  CHECK(draining(one, kernel.state, kWeb) ==
        SortedVector<netlink::RealServerKey>{{ip("10.244.1.4"), 8080}});
  CHECK(draining(both, kernel.state, kWeb).empty());
  SECTION("and gets its weight back in place when it returns") {
    const auto back = diff(both, kernel.state);
    CHECK(phase_names(back) == std::vector<std::string>{"edit"});
    kernel.apply(back);
    CHECK(server_in(kernel, kWeb, "10.244.1.4").weight == 1);
  }
}

TEST_CASE(
    "UDP real servers leave at once, those of SCTP drain unless it is to be kube-proxy's way") {
  const auto protocol = GENERATE(Protocol::udp, Protocol::sctp);
  const bool drain_sctp = GENERATE(true, false);
  const auto desired = [&](std::vector<api::Endpoint> endpoints) {
    auto service = test::web_service();
    service.ports[0].protocol = protocol;
    auto options = test::options_v4();
    options.differences.drain_sctp = drain_sctp;
    const auto cluster =
        test::cluster_of({service, test::slice_of(service, 8080, std::move(endpoints))});
    return plan(cluster, test::vector_node(), options).state;
  };
  const netlink::VirtualServiceKey key{ip("10.96.0.9"), protocol, 80};
  const auto one = desired({test::e1()});
  auto kernel = holding(desired({test::e1(), test::e2()}));
  kernel.apply(diff(one, kernel.state));
  const bool drains = protocol == Protocol::sctp && drain_sctp;
  CHECK(kernel.state.services->at(key).servers->size() == (drains ? 2 : 1));
  CHECK(draining(one, kernel.state, key).size() == (drains ? 1 : 0));
  CHECK(diff(one, kernel.state).empty());
}

TEST_CASE("what others changed is set right") {
  const auto desired = desired_for(test::web_service(), {test::e1(), test::e2()});
  auto kernel = holding(desired);
  set_weight(kernel, kWeb, "10.244.0.3", 7);
  kernel.state.services->at(kWeb).service.scheduler = "wrr";
  kernel.state.addresses->insert({ip("10.96.0.77")});
  kernel.state.sets.at({Family::ipv4, ipset::SetId::cluster_ip})->clear();
  kernel.state.rules.at({Family::ipv4, ipset::Table::nat}).chains[0].rules.pop_back();
  kernel.apply(diff(desired, kernel.state));
  CHECK(diff(desired, kernel.state).empty());
  CHECK(server_in(kernel, kWeb, "10.244.0.3").weight == 1);
  CHECK(kernel.state.services->at(kWeb).service.scheduler == "rr");
  CHECK(kernel.state.addresses->addresses() == AddressSet{ip("10.96.0.9")});
}

TEST_CASE("virtual services in excludeCIDRs are left alone, others of the family are removed") {
  auto desired = desired_for(test::web_service(), {test::e1()});
  auto kernel = holding(desired);
  for (const auto* address : {"192.168.7.1", "192.168.8.1", "fd00::1"}) {
    const netlink::VirtualServiceKey key{ip(address), Protocol::tcp, 22};
    kernel.state.services->emplace(key, ActualService{{.key = key, .scheduler = "rr"}, {}});
  }
  desired.excluded = {test::prefix("192.168.7.0/24")};
  const auto transaction = diff(desired, kernel.state);
  REQUIRE(transaction.phases.size() == 1);
  CHECK(
      std::get<std::vector<netlink::IpvsOp>>(transaction.phases[0].work) ==
      std::vector<netlink::IpvsOp>{netlink::DeleteService{{ip("192.168.8.1"), Protocol::tcp, 22}}});
}

TEST_CASE("nothing is exposed or removed on partial knowledge", "[item-8]") {
  const auto desired = desired_for(test::web_service(), {test::e1()});
  auto kernel = test::KernelModel::empty_for(desired);
  SECTION("unknown set: no VIP is shown") {
    kernel.state.sets.erase({Family::ipv4, ipset::SetId::cluster_ip});
    const auto names = phase_names(diff(desired, kernel.state));
    CHECK(names == std::vector<std::string>{"make sets", "prepare rules", "add elements"});
  }
  SECTION("unknown rules: no VIP is shown") {
    kernel.state.rules.erase({Family::ipv4, ipset::Table::nat});
    const auto names = phase_names(diff(desired, kernel.state));
    CHECK(names == std::vector<std::string>{"make sets", "prepare rules", "add elements"});
  }
  SECTION("unknown virtual services: none is added or removed, and no address is bound") {
    kernel.state.services.reset();
    const auto names = phase_names(diff(desired, kernel.state));
    CHECK(names == std::vector<std::string>{"make sets", "prepare rules", "add elements"});
  }
  SECTION("unknown addresses: virtual services are added, no address is touched") {
    kernel.state.addresses.reset();
    CHECK(phase_names(diff(desired, kernel.state)).back() == "add virtual services");
  }
  SECTION("unknown real servers stay as they are") {
    kernel = holding(desired);
    kernel.state.services->at(kWeb).servers.reset();
    CHECK(diff(desired, kernel.state).empty());
  }
}

TEST_CASE("what could not be read in full removes and drains nothing, but adds and edits") {
  auto kernel = holding(desired_for(test::web_service(), {test::e1(), test::e2()}));
  set_weight(kernel, kWeb, "10.244.0.3", 0);
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.7")};
  auto cluster = test::cluster_of(
      {other, test::web_service(), test::slice_of(test::web_service(), 8080, {test::e1()})});
  cluster.complete = false;
  const auto part = desired_of(cluster);
  const auto transaction = diff(part, kernel.state);
  CHECK(phase_names(transaction) ==
        std::vector<std::string>{"add elements", "add virtual services", "add addresses", "edit"});
  kernel.apply(transaction);
  CHECK(server_in(kernel, kWeb, "10.244.0.3").weight == 1);
  CHECK(server_in(kernel, kWeb, "10.244.1.4").weight == 1);

  cluster = model::ClusterState{};
  cluster.complete = false;
  CHECK(diff(desired_of(cluster), kernel.state).empty());
}

TEST_CASE("a restriction that goes keeps its rules until its elements are gone") {
  auto service = test::web_service();
  service.type = api::ServiceType::load_balancer;
  service.load_balancer_ips = {ip("192.0.2.10")};
  service.source_ranges = {test::prefix("203.0.113.0/24")};
  auto kernel = holding(desired_for(service, {test::e1()}));
  const auto without = desired_for(test::web_service(), {test::e1()});
  const auto transaction = diff(without, kernel.state);
  CHECK(phase_names(transaction) == std::vector<std::string>{"remove addresses",
                                                             "remove virtual services",
                                                             "remove elements", "settle rules"});
}

// One load balancer with so many of its 100 ports' source ranges as elements.
api::Service ranges_service(int ranges) {
  auto service = test::web_service();
  service.type = api::ServiceType::load_balancer;
  service.load_balancer_ips = {ip("192.0.2.10")};
  service.ports.clear();
  for (std::uint16_t port = 1; port <= 100; ++port)
    service.ports.push_back({"p" + std::to_string(port), Protocol::tcp, port, 0});
  for (int i = 0; i < ranges; ++i)
    service.source_ranges.push_back(netlink::IpPrefix::of(
        netlink::IpAddress::v4(0x14000000U + static_cast<std::uint32_t>(i) * 256), 24));
  return service;
}

TEST_CASE("a set grows before it is full, and shrinks when less than half is needed", "[item-17]") {
  constexpr plan::SetKey kRanges{Family::ipv4, ipset::SetId::load_balancer_source_cidr};
  auto small = desired_for(ranges_service(600), {});
  const auto large = desired_for(ranges_service(700), {});
  auto kernel = holding(small);
  CHECK(kernel.state.capacity(kRanges) == 65536);
  const auto growth = diff(large, kernel.state);
  REQUIRE(phase_names(growth) == std::vector<std::string>{"make sets", "add elements"});
  CHECK_THAT(
      to_text(growth),
      Catch::Contains("  make set KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net maxelem 131072"));
  kernel.apply(growth);
  CHECK(kernel.state.capacity(kRanges) == 131072);
  CHECK(diff(large, kernel.state).empty());

  kernel.apply(diff(small, kernel.state));
  CHECK(kernel.state.capacity(kRanges) == 131072);  // it may grow again
  small = desired_for(ranges_service(300), {});
  kernel.apply(diff(small, kernel.state));  // while it holds both it does not fit yet
  CHECK(to_text(diff(small, kernel.state)) ==
        "make sets\n  make set KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net\n");
  kernel.apply(diff(small, kernel.state));
  CHECK(kernel.state.capacity(kRanges) == 65536);
  CHECK(diff(small, kernel.state).empty());
}

TEST_CASE("a set that does not grow is made as kube-proxy makes it where it fits") {
  constexpr plan::SetKey kRanges{Family::ipv4, ipset::SetId::load_balancer_source_cidr};
  auto few = desired_for(ranges_service(1), {});
  few.growing_sets = false;
  auto kernel = holding(few);
  for (const std::uint32_t odd : {0U, 1000U, 131072U}) {
    kernel.state.odd_capacities[kRanges] = odd;
    CHECK(to_text(diff(few, kernel.state)) ==
          "make sets\n  make set KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net\n");
  }
  auto many = desired_for(ranges_service(700), {});
  many.growing_sets = false;
  kernel.state.odd_capacities.clear();
  CHECK(phase_names(diff(many, kernel.state)) == std::vector<std::string>{"add elements"});
}

TEST_CASE("a scheduler that builds a table is bound behind the real servers of a new service") {
  constexpr const char* scheduler = "mh";
  auto desired = desired_for(test::web_service(), {test::e1(), test::e2()});
  desired.services.at(kWeb).service.scheduler = scheduler;
  auto kernel = test::KernelModel::empty_for(desired);
  const auto transaction = diff(desired, kernel.state);
  CHECK_THAT(to_text(transaction),
             Catch::Contains(
                 "add virtual services\n"
                 "  add virtual service 10.96.0.9:80/TCP none\n"
                 "  add real server 10.244.0.3:8080 weight 1 to virtual service 10.96.0.9:80/TCP\n"
                 "  add real server 10.244.1.4:8080 weight 1 to virtual service 10.96.0.9:80/TCP\n"
                 "  edit virtual service 10.96.0.9:80/TCP " +
                 std::string(scheduler) + "\nadd addresses\n"));
  kernel.apply(transaction);
  CHECK(diff(desired, kernel.state).empty());
  CHECK(kernel.violations == 0);

  // What a process that ended in between left.
  kernel.state.services->at(kWeb).service.scheduler = netlink::kNoScheduler;
  CHECK(to_text(diff(desired, kernel.state)) ==
        "edit\n  edit virtual service 10.96.0.9:80/TCP " + std::string(scheduler) + "\n");
}

TEST_CASE("sh is bound late where there are many real servers") {
  for (const int count : {64, 65}) {
    std::vector<api::Endpoint> endpoints;
    for (int i = 1; i <= count; ++i)
      endpoints.push_back(test::endpoint("10.244.1." + std::to_string(i), "n2"));
    auto desired = desired_for(test::web_service(), endpoints);
    desired.services.at(kWeb).service.scheduler = "sh";
    auto kernel = test::KernelModel::empty_for(desired);
    const auto text = to_text(diff(desired, kernel.state));
    CHECK((text.find("10.96.0.9:80/TCP none") != std::string::npos) == (count == 65));
    kernel.apply(diff(desired, kernel.state));
    CHECK(diff(desired, kernel.state).empty());
  }
}

TEST_CASE("other schedulers, and those with few real servers, are bound at once") {
  const auto [scheduler, endpoints] = GENERATE(table<std::string, std::vector<api::Endpoint>>(
      {{"rr", {test::e1(), test::e2()}}, {"mh", {test::e1()}}, {"mh", {}}}));
  auto desired = desired_for(test::web_service(), endpoints);
  desired.services.at(kWeb).service.scheduler = scheduler;
  const auto text = to_text(diff(desired, test::KernelModel::empty_for(desired).state));
  CHECK_THAT(text, Catch::Contains("add virtual service 10.96.0.9:80/TCP " + scheduler));
  CHECK_THAT(text, !Catch::Contains("edit"));
}

TEST_CASE("a transaction prints every operation") {
  const auto desired = desired_for(test::web_service(), {test::e1()});
  const auto text = to_text(diff(desired, test::KernelModel::empty_for(desired).state));
  for (const auto* line :
       {"make set KUBE-CLUSTER-IP hash:ip,port\n", "add KUBE-CLUSTER-IP 10.96.0.9,tcp:80\n",
        "IPv4 table nat: KUBE-SERVICES with ", "10.96.0.9:80/TCP", "10.244.0.3:8080",
        "add address 10.96.0.9"})
    CHECK_THAT(text, Catch::Contains(line));
}

}  // namespace
}  // namespace ipvsproxier::plan
