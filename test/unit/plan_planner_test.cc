// The planner that keeps up with changes: always what a fresh one would plan, and no wider scope
// than the change.

#include "proxier/plan/planner.h"

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "proxier/model/service_port.h"
#include "proxier/plan/diff.h"
#include "test/support/cluster_builder.h"
#include "test/support/kernel_model.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::plan {
namespace {

using netlink::Family;
using netlink::Protocol;
using test::ip;

constexpr std::uint32_t kSeeds = 40;

// A planner beside the cluster that it follows, and a kernel that takes only what it answers.
class Following {
 public:
  Following(const NodeInfo& node, const PlannerOptions& options)
      : planner_(options), kernel(test::KernelModel::empty_for(planner_.desired())) {
    planner_.set_node(node);
    step({});
  }

  // Goes to this cluster by what changed. The transaction that it took.
  Transaction step(const model::ClusterState& next) {
    const auto touched = cluster_.take(test::changes_between(cluster_, next));
    const auto scope = planner_.update(touched.services, cluster_);
    auto transaction = diff(planner_.desired(), kernel.state, scope);
    kernel.apply(transaction);
    return transaction;
  }
  void set_node(const NodeInfo& node) { planner_.set_node(node); }
  const Planner& planner() const { return planner_; }

 private:
  model::ClusterState cluster_;
  Planner planner_;

 public:
  test::KernelModel kernel;
};

TEST_CASE("Services that lack local endpoints are counted, not their ports") {
  Following following(test::vector_node(), {.families = {Family::ipv4}});
  const auto lack = [&](const model::ClusterState& cluster) {
    following.step(cluster);
    return following.planner().local_lack(Family::ipv4);
  };
  auto web = test::web_service();
  web.ports.push_back({.name = "more", .protocol = Protocol::tcp, .port = 81});
  web.ports[0].node_port = 30080;
  web.ports[1].node_port = 30081;
  web.type = api::ServiceType::node_port;
  const auto cluster = [&](std::vector<api::Endpoint> endpoints) {
    auto slice = test::slice_of(web, 8080, std::move(endpoints));
    slice.ports.push_back({"more", Protocol::tcp, 8081});
    return test::cluster_of({web, slice});
  };
  CHECK(lack(cluster({test::e2()})) == LocalLack{});
  web.external_policy_local = true;
  CHECK(lack(cluster({test::e2()})) == LocalLack{.internal = 0, .external = 1});
  web.internal_policy_local = true;
  CHECK(lack(cluster({test::e2()})) == LocalLack{.internal = 1, .external = 1});
  CHECK(following.planner().local_lack(Family::ipv6) == LocalLack{});
  CHECK(lack(cluster({test::e1(), test::e2()})) == LocalLack{});
  web.external_policy_local = false;
  CHECK(lack(cluster({test::e2()})) == LocalLack{.internal = 1, .external = 0});
  // Elsewhere there is none either.
  auto unready = test::e2();
  unready.ready = false;
  unready.serving = false;
  CHECK(lack(cluster({unready})) == LocalLack{});
  unready.serving = unready.terminating = true;
  CHECK(lack(cluster({unready})) == LocalLack{.internal = 1, .external = 0});
  CHECK(lack(model::ClusterState{}) == LocalLack{});
}

TEST_CASE("following changes gives what planning everything at once gives") {
  for (std::uint32_t seed = 0; seed < test::seeds(kSeeds); ++seed) {
    INFO("seed " << seed);
    test::RandomCluster random(seed);
    auto node = random.node();
    const auto options = random.options();
    Following following(node, options);
    auto cluster = random.cluster(20);
    for (int step = 0; step < 8; ++step) {
      INFO("step " << step);
      following.step(cluster);
      following.kernel.finish_drains(following.planner().desired());
      const auto fresh = plan(cluster, node, options);
      CHECK(to_text(following.planner().desired()) == to_text(fresh.state));
      REQUIRE(following.planner().desired() == fresh.state);
      CHECK(following.planner().problems() == fresh.problems);
      // Nothing was left out of any scope.
      REQUIRE(to_text(diff(fresh.state, following.kernel.state)) == "");
      CHECK(following.kernel.violations == 0);
      random.change(cluster);
      if (step % 3 == 2) {
        node = random.node();
        following.set_node(node);
      }
    }
  }
}

std::size_t count_ops(const Transaction& transaction) {
  std::size_t count = 0;
  for (const auto& phase : transaction.phases)
    if (const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work))
      count += ops->size();
  return count;
}

std::size_t count_elements(const Transaction& transaction) {
  std::size_t count = 0;
  for (const auto& phase : transaction.phases)
    if (const auto* changes = std::get_if<std::vector<SetChange>>(&phase.work))
      for (const auto& change : *changes) count += change.ops.size();
  return count;
}

model::ClusterState many_services(int count) {
  model::ClusterState cluster;
  for (int i = 0; i < count; ++i) {
    auto service = test::web_service();
    service.name.name = "s" + std::to_string(i);
    service.cluster_ips = {netlink::IpAddress::v4(0x0a600100U + static_cast<std::uint32_t>(i))};
    cluster.put(test::slice_of(service, 8080, {test::e1(), test::e2()}));
    cluster.put(std::move(service));
  }
  return cluster;
}

TEST_CASE("one endpoint replaced costs two IPVS operations among few and among many Services") {
  const int others = GENERATE(0, 300);
  PlannerOptions options;
  options.families = {Family::ipv4};
  options.cluster_cidrs = {test::prefix("10.244.0.0/16")};
  Following following(test::vector_node(), options);
  auto cluster = many_services(others);
  const auto web = test::web_service();
  cluster.put(web);
  cluster.put(test::slice_of(web, 8080, {test::e1(), test::e2()}));
  following.step(cluster);

  SECTION("of another node: no set is touched") {
    cluster.put(test::slice_of(web, 8080, {test::e1(), test::endpoint("10.244.1.9", "n2")}));
    const auto transaction = following.step(cluster);
    CHECK(count_ops(transaction) == 2);
    CHECK(transaction.phases.size() == 2);
    CHECK(count_elements(transaction) == 0);
  }
  SECTION("added on this node: one operation and one element") {
    cluster.put(
        test::slice_of(web, 8080, {test::e1(), test::e2(), test::endpoint("10.244.0.9", "n1")}));
    const auto transaction = following.step(cluster);
    CHECK(count_ops(transaction) == 1);
    CHECK(count_elements(transaction) == 1);
  }
  SECTION("what is written again as it is costs nothing and is in no scope") {
    cluster.put(test::slice_of(web, 8080, {test::e1(), test::e2()}));
    CHECK(following.step(cluster).empty());
  }
}

TEST_CASE("a Service that goes gives contested keys to the one that waits") {
  PlannerOptions options;
  options.families = {Family::ipv4};
  Following following(test::vector_node(), options);
  auto first = test::web_service();
  first.external_ips = {ip("198.51.100.20")};
  first.creation_time = 1;
  auto second = first;
  second.name.name = "second";
  second.cluster_ips = {ip("10.96.0.10")};
  second.creation_time = 2;
  following.step(test::cluster_of({first, second}));
  const netlink::VirtualServiceKey shared{ip("198.51.100.20"), Protocol::tcp, 80};
  REQUIRE(following.planner().owner_of(shared) != nullptr);
  CHECK(*following.planner().owner_of(shared) == first.name);
  CHECK(following.planner().problems().size() == 1);

  following.step(test::cluster_of({second}));
  CHECK(*following.planner().owner_of(shared) == second.name);
  CHECK(following.planner().problems().empty());
  CHECK(following.planner().desired().addresses.contains(shared.address));
}

TEST_CASE("the scope of a Service names all that guards it") {
  PlannerOptions options;
  options.families = {Family::ipv4};
  Following following(test::vector_node(), options);
  auto service = test::web_service();
  service.type = api::ServiceType::load_balancer;
  service.load_balancer_ips = {ip("192.0.2.10")};
  service.source_ranges = {test::prefix("203.0.113.0/24")};
  following.step(test::cluster_of({service}));
  const auto scope = following.planner().scope_of(service.name);
  CHECK(scope.services.size() == 2);
  CHECK(scope.addresses == AddressSet{ip("10.96.0.9"), ip("192.0.2.10")});
  using ipset::SetId;
  for (auto id : {SetId::cluster_ip, SetId::load_balancer, SetId::load_balancer_fw,
                  SetId::load_balancer_source_cidr, SetId::ipvs_ips})
    CHECK(scope.elements.at({Family::ipv4, id}) ==
          following.planner().desired().sets.at({Family::ipv4, id}));
}

// One with as many ports and external IPs, all of which its endpoints have.
model::ClusterState greedy(std::size_t ports, std::size_t ips, std::size_t endpoints) {
  auto web = test::web_service();
  auto slice = test::slice_of(web, 1, {});
  web.ports.clear();
  slice.ports.clear();
  for (std::size_t i = 1; i <= ports; ++i) {
    const auto number = static_cast<std::uint16_t>(i);
    web.ports.push_back({.name = fmt::format("p{}", i), .port = number});
    slice.ports.push_back({fmt::format("p{}", i), Protocol::tcp, number});
  }
  for (std::size_t i = 0; i < ips; ++i)
    web.external_ips.push_back(ip(fmt::format("198.51.{}.{}", i / 256, i % 256)));
  for (std::size_t i = 0; i < endpoints; ++i)
    slice.endpoints.push_back(test::endpoint(fmt::format("10.244.{}.{}", i / 256, i % 256), "n1"));
  auto other = test::web_service();
  other.name.name = "other";
  other.cluster_ips = {ip("10.96.0.10")};
  return test::cluster_of({web, slice, other, test::slice_of(other, 8080, {test::e1()})});
}

TEST_CASE("one Service cannot ask for more than its share, and others do not notice") {
  const auto told = [](const Plan& plan) {
    return plan.problems.empty() ? "" : api::to_string(plan.problems.front());
  };
  const auto options = [] {
    PlannerOptions result;
    result.families = {Family::ipv4};
    return result;
  }();
  std::size_t ports = 0;
  std::size_t ips = 0;
  std::size_t endpoints = 0;
  SECTION("of ports and endpoints: two millions") {
    ports = 2000;
    endpoints = 1000;
  }
  SECTION("of ports, external IPs and endpoints: more than a quarter of a million") {
    ports = 60;
    ips = 5;
    endpoints = 1000;
  }
  const auto result = plan(greedy(ports, ips, endpoints), test::vector_node(), options);
  CHECK_THAT(told(result), Catch::StartsWith("Service default/web: asks for more than one"));
  std::size_t servers = 0;
  for (const auto& [key, planned] : result.state.services) servers += planned.servers.size();
  CHECK(servers <= model::kMostOfOneService + 1);
  const auto other = result.state.services.find({ip("10.96.0.10"), Protocol::tcp, 80});
  REQUIRE(other != result.state.services.end());
  CHECK(other->second.servers.size() == 1);
}

TEST_CASE("that a Service asks for too much is told as long as it is so") {
  PlannerOptions options;
  options.families = {Family::ipv4};
  Following following(test::vector_node(), options);
  following.step(greedy(300, 0, 1000));
  CHECK(following.planner().problems().size() == 1);
  following.step(greedy(301, 0, 1000));
  CHECK(following.planner().problems().size() == 1);
  following.step(greedy(3, 0, 3));
  CHECK(following.planner().problems().empty());
  following.step(greedy(300, 0, 1000));
  following.step({});
  CHECK(following.planner().problems().empty());
}

}  // namespace
}  // namespace ipvsproxier::plan
