// Hostile objects, decoded and planned: they cost themselves. IPVS_PROXIER_SOAK_SEED and
// IPVS_PROXIER_SOAK_SECONDS let it run longer; a failure prints the seed and the cases that it
// takes.

#include <chrono>

#include <catch2/catch.hpp>

#include "proxier/api/object_json.h"
#include "proxier/api/wire.h"
#include "test/support/foreign_text.h"
#include "test/support/hostile_objects.h"
#include "test/support/ip.h"
#include "test/support/random_cluster.h"
#include "test/support/random_run.h"

namespace ipvsproxier::plan {
namespace {

using test::HostileCase;
using test::HostileObject;
using test::HostileObjects;

// Each refuses the rest of a cluster nothing, so that what is wrong is said in a few words.
constexpr std::size_t kLongestProblem = 2000;

api::ObjectKind kind_of(const HostileObject& object) {
  for (const auto kind :
       {api::ObjectKind::service, api::ObjectKind::endpoint_slice, api::ObjectKind::node})
    if (object.kind == api::to_string(kind)) return kind;
  throw std::logic_error("an object of no kind: " + object.kind);
}

std::string wrong_problem(const api::Problems& problems) {
  for (const auto& problem : problems) {
    const auto text = api::to_string(problem);
    if (text.size() > kLongestProblem) return "a problem of " + std::to_string(text.size());
    if (auto raw = test::raw_text_in(text); !raw.empty()) return "a problem has " + raw;
    if (text.find('\n') != std::string::npos) return "a problem of two lines: " + text;
  }
  return "";
}

// Puts what can be read of it; "" or what is wrong with how it is read.
std::string take(const HostileObject& object, model::ClusterState& cluster) {
  const auto text = object.text();
  const auto kind = kind_of(object);
  auto item = api::decode_list_item(text, kind);
  const auto event = api::decode_watch_event(R"({"type":"ADDED","object":)" + text + "}\n", kind);
  if (!event) return "the watch cannot go on: " + to_string(event.error());
  if (event->object != item.object) return "an event tells another object than a list";
  const api::NamespacedName name{object.name_space, object.name};
  // What the server's JSON cannot spell is not what it is called by.
  const bool spells = object.raw.empty();
  if (spells && (item.name != name || event->name != name))
    return "it is taken for " + api::to_string(item.name);
  if (auto wrong = wrong_problem(item.problems); !wrong.empty()) return wrong;
  if (item.object) cluster.put(*std::move(item.object));
  return "";
}

struct HostileWorld {
  explicit HostileWorld(std::uint32_t seed) : random(seed), cluster(random.cluster(12)) {
    options = random.options();
    node = random.node();
    // An API server knows the age of each.
    for (auto& [name, service] : cluster.services) service.creation_time = 1;
    for (const auto& address : node.addresses)
      victims.node_addresses.push_back(address.address.to_string());
    for (const auto& [name, service] : cluster.services)
      if (!service.cluster_ips.empty() && !service.ports.empty())
        victims.services.push_back({name.ns, name.name, service.cluster_ips[0].to_string(),
                                    service.ports[0].port,
                                    std::string(netlink::to_string(service.ports[0].protocol))});
  }

  test::RandomCluster random;
  model::ClusterState cluster;
  PlannerOptions options;
  NodeInfo node;
  test::Victims victims;
};

// Everything of `less` is in `more`.
std::string missing_in(const DesiredState& more, const DesiredState& less) {
  for (const auto& [key, planned] : less.services) {
    const auto it = more.services.find(key);
    if (it == more.services.end() || it->second != planned)
      return "another plan of " + to_string(key);
  }
  for (const auto& address : less.addresses)
    if (!more.addresses.contains(address)) return "no address " + address.to_string();
  for (const auto& [key, elements] : less.sets)
    for (const auto& element : elements)
      if (!more.sets.at(key).contains(element))
        return ipset::set_name(key.id, key.family) + " lacks " + ipset::to_string(element);
  for (const auto& [family, rules] : less.rules)
    if (rules.detector != more.rules.at(family).detector) return "other rules";
  return "";
}

// `more` has nothing that does not belong to one that is not in `known`.
std::string surplus_of_others(const Planner& more, const DesiredState& less,
                              const model::ClusterState& known) {
  for (const auto& [key, planned] : more.desired().services) {
    if (less.services.contains(key)) continue;
    const auto* owner = more.owner_of(key);
    if (owner == nullptr || known.services.contains(*owner))
      return to_string(key) + " is new, of " + (owner ? api::to_string(*owner) : "nobody");
  }
  return "";
}

std::string what_fails(HostileWorld& world, const std::vector<HostileCase>& cases) {
  auto cluster = world.cluster;
  Planner planner(world.options);
  planner.set_node(world.node);
  planner.update_all(cluster);
  const auto before = planner.desired();
  for (const auto& one : cases)
    for (const auto& object : one.objects)
      if (auto wrong = take(object, cluster); !wrong.empty())
        return object.kind + " " + object.name_space + "/" + object.name + ": " + wrong;
  std::set<api::NamespacedName> all;
  for (const auto& [name, service] : cluster.services) all.insert(name);
  for (const auto& [name, slices] : cluster.slices) all.insert(name);
  planner.update(all, cluster);
  if (auto wrong = missing_in(planner.desired(), before); !wrong.empty()) return wrong;
  // Addresses of a Service on a node-port range are node ports' too.
  if (world.options.node_port_addresses.empty())
    if (auto wrong = surplus_of_others(planner, before, world.cluster); !wrong.empty())
      return wrong;
  if (auto wrong = wrong_problem(planner.problems()); !wrong.empty()) return wrong;
  if (plan(cluster, world.node, world.options).state != planner.desired())
    return "another plan from scratch";
  planner.update(all, world.cluster);
  if (planner.desired() != before) return "what they asked for stays behind";
  return "";
}

void check(std::uint32_t seed, const std::vector<HostileCase>& cases, HostileWorld& world) {
  const auto wrong = what_fails(world, cases);
  if (wrong.empty()) return;
  const auto least = test::shrink(
      cases, [&](const auto& some) { return !what_fails(world, some).empty(); }, 50);
  std::string text;
  for (const auto& one : least) {
    text += fmt::format("\n{} {}:", to_string(one.hostility), one.number);
    for (std::size_t i = 0; i < one.objects.size() && i < 3; ++i)
      text += "\n  " + one.objects[i].text().substr(0, 2000);
  }
  FAIL("IPVS_PROXIER_SOAK_SEED=" << seed << ": " << what_fails(world, least) << text);
}

TEST_CASE("hostile objects: each kind costs itself alone") {
  HostileWorld world(1);
  world.options = {};  // nothing is left out of what is checked
  REQUIRE(!world.victims.services.empty());
  HostileObjects hostile(1, world.victims);
  for (std::size_t i = 0; i < test::kHostilities; ++i) {
    const auto hostility = static_cast<test::Hostility>(i);
    INFO(to_string(hostility));
    check(1, {hostile.make(hostility)}, world);
  }
  for (int i = 0; i < 20; ++i) check(1, {hostile.make(test::Hostility::duplicate_keys)}, world);
}

// Its own address, the one that all want, and the own one of whom that goes to.
void check_small(const Scope& scope) {
  REQUIRE(scope.services.size() <= 3);
  REQUIRE(scope.addresses.size() <= 3);
  for (const auto& [key, elements] : scope.elements) REQUIRE(elements.size() <= 3);
}

TEST_CASE("hostile objects: thousands claim one address, and each of them costs itself", "[slow]") {
  constexpr int kClaimants = 3000;
  HostileWorld world(1);
  HostileObjects hostile(1, world.victims, kClaimants);
  Planner planner({});
  planner.set_node(world.node);
  planner.update_all(world.cluster);
  const auto before = planner.desired();
  auto cluster = world.cluster;
  std::vector<api::NamespacedName> names;
  for (const auto& object : hostile.make(test::Hostility::one_address).objects) {
    REQUIRE(take(object, cluster) == "");
    names.push_back({object.name_space, object.name});
    check_small(planner.update({names.back()}, cluster));
  }
  REQUIRE(names.size() == kClaimants);
  CHECK(missing_in(planner.desired(), before) == "");
  CHECK(surplus_of_others(planner, before, world.cluster) == "");
  // Their own addresses, and the one for one of them.
  CHECK(planner.desired().services.size() == before.services.size() + kClaimants + 1);
  CHECK(wrong_problem(planner.problems()) == "");
  CHECK(plan(cluster, world.node, {}).state == planner.desired());
  // Whoever goes, one of the others has it; in turn the one that has it and any.
  const netlink::VirtualServiceKey wanted{test::ip("10.97.209.9"), netlink::Protocol::tcp, 80};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto* owner = planner.owner_of(wanted);
    REQUIRE(owner != nullptr);
    const auto name = i % 2 == 0 || !cluster.services.contains(names[i]) ? *owner : names[i];
    cluster.services.erase(name);
    check_small(planner.update({name}, cluster));
  }
  CHECK(planner.desired() == before);
}

TEST_CASE("hostile objects: a seed gives the same ones each time", "[slow]") {
  const test::Victims victims{{"10.0.0.1"}, {{"shop", "web", "10.96.0.9"}}};
  HostileObjects one(7, victims);
  HostileObjects other(7, victims);
  for (int i = 0; i < 50; ++i) {
    const auto first = one.any();
    const auto second = other.any();
    REQUIRE(first.objects.size() == second.objects.size());
    for (std::size_t k = 0; k < first.objects.size(); ++k)
      CHECK(first.objects[k].text() == second.objects[k].text());
  }
}

TEST_CASE("hostile objects: a hostile Node says what the Node says") {
  HostileObjects hostile(3, {{}, {{"shop", "web", "10.96.0.9"}}});
  api::Node node{.name = "n1", .zone = "z1"};
  node.internal_ips = {test::ip("10.0.0.1")};
  const auto item = api::decode_list_item(hostile.node(api::to_json(node)), api::ObjectKind::node);
  REQUIRE(item.object);
  CHECK(std::get<api::Node>(*item.object) == node);
  CHECK(wrong_problem(item.problems) == "");
}

TEST_CASE("hostile objects: many at once cost themselves alone", "[random][slow]") {
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::seconds(test::environment_number("IPVS_PROXIER_SOAK_SECONDS", 0));
  auto seed = static_cast<std::uint32_t>(test::environment_number("IPVS_PROXIER_SOAK_SEED", 1));
  for (int round = 0; round < 40 || Clock::now() < end; ++round, ++seed) {
    HostileWorld world(seed);
    if (world.victims.services.empty()) continue;
    HostileObjects hostile(seed, world.victims);
    std::vector<HostileCase> cases;
    for (int i = 0; i < 4; ++i) cases.push_back(hostile.any());
    check(seed, cases, world);
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
