// Endpoint selection: docs/kube-proxy.md, section 9, row by row. Endpoints are written as
// "NAME STATE PLACE HINTS": state r(eady) s(erving and terminating) t(erminating, not serving)
// n(ot ready), place l(ocal) or -, hints "z=..." "n=...".

#include "proxier/plan/topology.h"

#include <sstream>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::plan {
namespace {

using model::Hint;

struct Scene {
  std::vector<model::Endpoint> endpoints;
};

// For node n1 in zone z1.
void add_hint(model::Endpoint& endpoint, const std::string& word) {
  auto& hint = word[0] == 'z' ? endpoint.zone_hint : endpoint.node_hint;
  if (hint != Hint::ours) hint = word == "z=z1" || word == "n=n1" ? Hint::ours : Hint::others;
}

Scene scene(const std::vector<std::string>& rows) {
  Scene result;
  for (const auto& row : rows) {
    std::istringstream words(row);
    std::string name, state, place, hint;
    words >> name >> state >> place;
    auto& endpoint = result.endpoints.emplace_back();
    endpoint.key.port = static_cast<std::uint16_t>(name.at(0));
    endpoint.local = place == "l";
    endpoint.ready = state == "r";
    endpoint.serving = state == "r" || state == "s";
    endpoint.terminating = state == "s" || state == "t";
    while (words >> hint) add_hint(endpoint, hint);
  }
  return result;
}

std::string names(const std::vector<const model::Endpoint*>& chosen) {
  std::string result;
  for (const auto* endpoint : chosen) result += static_cast<char>(endpoint->key.port);
  return result;
}

model::ServicePort port_with(bool internal_local, bool external_local, bool accessible) {
  model::ServicePort port;
  port.internal_policy_local = internal_local;
  port.external_policy_local = external_local;
  port.externally_accessible = accessible;
  return port;
}

struct Row {
  std::string what;
  std::vector<std::string> endpoints;
  std::string cluster;
  std::string local;
};

const std::vector<Row> kRows = {
    {"nothing", {}, "", ""},
    {"all ready", {"a r l", "b r -"}, "ab", "a"},
    {"unready is never used", {"a n l", "b n -"}, "", ""},
    {"ready beats terminating", {"a r -", "b s l"}, "a", "b"},
    {"terminating when nothing is ready", {"a s l", "b s -", "c n -"}, "ab", "a"},
    {"terminating that does not serve is not used", {"a t l", "b t -"}, "", ""},
    {"local falls back apart from the cluster", {"a s l", "b r -"}, "b", "a"},
    {"cluster does not fall back for local's sake", {"a r l", "b s -"}, "a", "a"},
    {"zone hints of all", {"a r - z=z1", "b r - z=z2", "c r - z=z2 z=z1"}, "ac", ""},
    {"a ready one without hints ends them", {"a r - z=z1", "b r -"}, "ab", ""},
    {"an unready one without hints does not", {"a r - z=z1", "b n -", "c r - z=z2"}, "a", ""},
    {"a terminating one without hints does not", {"a r - z=z1", "b s -", "c r - z=z2"}, "a", ""},
    {"no hint for our zone ends them", {"a r - z=z2", "b r - z=z3"}, "ab", ""},
    {"node hints come before zone hints",
     {"a r - n=n1 z=z2", "b r - n=n2 z=z1", "c r - n=n1 z=z1"},
     "ac",
     ""},
    {"node hints not for us leave zone hints", {"a r - n=n2 z=z1", "b r - n=n3 z=z2"}, "a", ""},
    {"node hints not on all leave zone hints", {"a r - n=n1 z=z2", "b r - z=z1"}, "b", ""},
    {"local ignores hints", {"a r l z=z2", "b r - z=z1"}, "b", "a"},
    {"the terminating fallback ignores hints", {"a s - z=z2", "b s - z=z1"}, "ab", ""},
};

TEST_CASE("endpoints are chosen by readiness, place and hints") {
  for (const auto& row : kRows) {
    INFO(row.what);
    const auto given = scene(row.endpoints);
    const auto choice = choose_endpoints(port_with(false, true, true), given.endpoints);
    CHECK(names(choice.cluster) == row.cluster);
    CHECK(names(choice.local) == row.local);
  }
}

TEST_CASE("lists that no policy uses stay empty") {
  const auto given = scene({"a r l", "b r -"});
  const auto [internal, external, accessible, cluster, local] =
      GENERATE(table<bool, bool, bool, std::string, std::string>({
          {false, false, false, "ab", ""},
          {false, false, true, "ab", ""},
          {false, true, false, "ab", ""},
          {false, true, true, "ab", "a"},
          {true, false, false, "", "a"},
          {true, false, true, "ab", "a"},
          {true, true, false, "", "a"},
          {true, true, true, "ab", "a"},
      }));
  const auto choice = choose_endpoints(port_with(internal, external, accessible), given.endpoints);
  CHECK(names(choice.cluster) == cluster);
  CHECK(names(choice.local) == local);
}

TEST_CASE("a facet with policy Local falls back to the cluster's endpoints, unless it is strict") {
  const auto remote = scene({"b r -"});
  const auto both = scene({"a r l", "b r -"});
  const auto port = port_with(false, true, true);
  const auto without = choose_endpoints(port, remote.endpoints);
  CHECK(names(without.of_facet(true, false)) == "b");
  CHECK(names(without.of_facet(true, true)).empty());
  const auto with = choose_endpoints(port, both.endpoints);
  CHECK(names(with.of_facet(true, false)) == "a");
  CHECK(names(with.of_facet(true, true)) == "a");
  CHECK(names(with.of_facet(false, false)) == "ab");
  CHECK(names(with.of_facet(false, true)) == "ab");
}

TEST_CASE("why an endpoint is used or not agrees with the choice, row by row") {
  for (const auto& row : kRows) {
    INFO(row.what);
    const auto given = scene(row.endpoints);
    for (const bool by_local : {false, true}) {
      const auto uses = judge_endpoints(given.endpoints, by_local);
      REQUIRE(uses.size() == given.endpoints.size());
      std::vector<const model::Endpoint*> used;
      for (std::size_t i = 0; i < uses.size(); ++i)
        if (uses[i] == EndpointUse::used || uses[i] == EndpointUse::last_resort)
          used.push_back(&given.endpoints[i]);
      CHECK(names(used) == (by_local ? row.local : row.cluster));
    }
  }
}

TEST_CASE("the reason that an endpoint is not used is the first that holds") {
  using enum EndpointUse;
  using Uses = std::vector<EndpointUse>;
  const auto judged = [](const std::vector<std::string>& rows, bool by_local) {
    return judge_endpoints(scene(rows).endpoints, by_local);
  };
  CHECK(judged({"a r l", "b n l", "c s l", "d t -"}, false) ==
        Uses{used, not_ready, terminating, terminating});
  CHECK(judged({"a r l", "b r -", "c n -"}, true) == Uses{used, not_local, not_local});
  CHECK(judged({"a s l", "b n l", "c s -"}, true) == Uses{last_resort, not_ready, not_local});
  CHECK(judged({"a s l", "b t -"}, false) == Uses{last_resort, terminating});
  CHECK(judged({"a r - z=z1", "b r - z=z2", "c n - z=z1"}, false) ==
        Uses{used, other_zone, not_ready});
  CHECK(judged({"a r - n=n1", "b r - n=n2"}, false) == Uses{used, other_node});
  CHECK(judged({"a n l", "b n -"}, false) == Uses{not_ready, not_ready});
  CHECK(judged({}, false).empty());
}

TEST_CASE("a real server has the weight that is asked for, and none if it gets nothing new") {
  model::Endpoint endpoint;
  CHECK(weight_of(endpoint, EndpointUse::used).weight == 1);
  CHECK(weight_of(endpoint, EndpointUse::used).why.empty());
  endpoint.weight = {7, model::WeightBy::zone};
  CHECK(weight_of(endpoint, EndpointUse::last_resort).weight == 7);
  CHECK(weight_of(endpoint, EndpointUse::last_resort).why == "by ipvs-proxier/weights, its zone");
  for (const auto use : {EndpointUse::not_ready, EndpointUse::terminating, EndpointUse::not_local,
                         EndpointUse::other_node, EndpointUse::other_zone}) {
    CHECK(weight_of(endpoint, use).weight == 0);
    CHECK(weight_of(endpoint, use).why == to_string(use));
  }
}

}  // namespace
}  // namespace ipvsproxier::plan
