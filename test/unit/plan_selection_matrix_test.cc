// Endpoint selection, every combination of two endpoints, against docs/kube-proxy.md, section 9,
// said in sets: bit 0 is the first endpoint, bit 1 the second.

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/topology.h"

namespace ipvsproxier::plan {
namespace {

enum class State : std::uint8_t { ready, serving_terminating, terminating, not_ready };
using model::Hint;

struct Kind {
  State state = State::ready;
  bool local = false;
  Hint node = Hint::none;
  Hint zone = Hint::none;
};

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const auto state :
       {State::ready, State::serving_terminating, State::terminating, State::not_ready})
    for (const bool local : {false, true})
      for (const auto node : {Hint::none, Hint::ours, Hint::others})
        for (const auto zone : {Hint::none, Hint::ours, Hint::others})
          all.push_back({state, local, node, zone});
  return all;
}

using Pair = std::vector<Kind>;
using Set = unsigned;

template <typename Predicate>
Set those(const Pair& pair, Predicate is_so) {
  Set set = 0;
  for (std::size_t i = 0; i < pair.size(); ++i)
    if (is_so(pair[i])) set |= 1U << i;
  return set;
}

// "Every ready endpoint has hints and at least one hints us": those that do, else nothing.
Set hinted(const Pair& pair, Set ready, Hint Kind::*hint) {
  const Set with = those(pair, [hint](const Kind& kind) { return kind.*hint != Hint::none; });
  const Set us = those(pair, [hint](const Kind& kind) { return kind.*hint == Hint::ours; });
  return (ready & ~with) == 0 ? ready & us : 0;
}

Set first_of(std::initializer_list<Set> sets) {
  for (const auto set : sets)
    if (set != 0) return set;
  return 0;
}

struct Expected {
  Set cluster = 0;
  Set local = 0;
};

Expected expected(const Pair& pair) {
  const Set ready = those(pair, [](const Kind& kind) { return kind.state == State::ready; });
  const Set leaving =
      those(pair, [](const Kind& kind) { return kind.state == State::serving_terminating; });
  const Set here = those(pair, [](const Kind& kind) { return kind.local; });
  return {.cluster = first_of(
              {hinted(pair, ready, &Kind::node), hinted(pair, ready, &Kind::zone), ready, leaving}),
          .local = first_of({ready & here, leaving & here})};
}

model::Endpoint endpoint_of(const Kind& kind) {
  const bool ready = kind.state == State::ready;
  const bool leaving = kind.state == State::serving_terminating;
  return {.local = kind.local,
          .ready = ready,
          .serving = ready || leaving,
          .terminating = leaving || kind.state == State::terminating,
          .node_hint = kind.node,
          .zone_hint = kind.zone};
}

// Wrong facets of this pair, over every policy.
int wrong_choices(const Pair& pair) {
  std::vector<model::Endpoint> endpoints;
  for (const auto& kind : pair) endpoints.push_back(endpoint_of(kind));
  const auto want = expected(pair);
  int wrong = 0;
  for (const unsigned policies : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
    model::ServicePort port;
    port.internal_policy_local = (policies & 1U) != 0;
    port.external_policy_local = (policies & 2U) != 0;
    port.externally_accessible = (policies & 4U) != 0;
    const auto choice = choose_endpoints(port, endpoints);
    const auto chosen = [&](bool local_only, bool strict) {
      Set set = 0;
      for (const auto* endpoint : choice.of_facet(local_only, strict))
        set |= 1U << static_cast<unsigned>(endpoint - endpoints.data());
      return set;
    };
    // The cluster IP; a Service that nobody outside reaches never looks at other nodes.
    const Set fallback = port.externally_accessible ? want.cluster : 0;
    const Set inside = port.internal_policy_local ? first_of({want.local, fallback}) : want.cluster;
    if (chosen(port.internal_policy_local, false) != inside) ++wrong;
    if (chosen(port.internal_policy_local, true) !=
        (port.internal_policy_local ? want.local : want.cluster))
      ++wrong;
    if (!port.externally_accessible) continue;
    const Set outside =
        port.external_policy_local ? first_of({want.local, want.cluster}) : want.cluster;
    if (chosen(port.external_policy_local, false) != outside) ++wrong;
  }
  return wrong;
}

TEST_CASE("every combination of two endpoints and all policies") {
  int pairs = 0;
  for (const auto& first : kinds())
    for (const auto& second : kinds()) {
      ++pairs;
      INFO("states " << int(first.state) << int(second.state) << ", local " << first.local
                     << second.local << ", node hints " << int(first.node) << int(second.node)
                     << ", zone hints " << int(first.zone) << int(second.zone));
      CHECK(wrong_choices({first, second}) == 0);
    }
  CHECK(pairs == 72 * 72);
}

TEST_CASE("every endpoint alone, and none") {
  CHECK(wrong_choices({}) == 0);
  for (const auto& kind : kinds()) CHECK(wrong_choices({kind}) == 0);
}

}  // namespace
}  // namespace ipvsproxier::plan
