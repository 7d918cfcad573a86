// What the scheduler wrr costs where real servers may be full: the kernel walks all of them for
// each step of the weights (proxier/plan/wrr_steps.h).

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "proxier/plan/diff.h"
#include "proxier/plan/planner.h"
#include "proxier/plan/service_report.h"
#include "test/support/kernel_model.h"
#include "test/unit/planned_lines.h"
#include "test/unit/problem_lines.h"

namespace ipvsproxier::plan {
namespace {

using test::KernelModel;
using Weights = std::vector<std::uint32_t>;

constexpr std::size_t kBound = 10'000;
constexpr std::string_view kLimit = "ipvs-proxier/max-connections";

PlannerOptions with_annotations() {
  auto options = test::vector_options();
  options.differences.service_annotations = true;
  return options;
}

api::Service web_annotated(std::vector<api::Annotation> annotations) {
  auto service = test::web_service();
  std::ranges::sort(annotations, {}, &api::Annotation::key);
  service.annotations = std::move(annotations);
  return service;
}

// Endpoints that have these weights by their slices, `first` and following ones.
model::ClusterState weighted(const api::Service& service, const Weights& weights,
                             std::size_t first = 0) {
  model::ClusterState cluster;
  cluster.put(service);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto number = first + i;
    const auto address =
        "10.244." + std::to_string(number / 250) + "." + std::to_string(number % 250 + 1);
    auto slice = test::slice_of(service, 8080, {test::endpoint(address, "n2")},
                                std::to_string(1000 + number));
    slice.weight = weights[i];
    cluster.put(slice);
  }
  return cluster;
}

// Of the Service's only virtual service, in the order of the endpoints.
Weights planned_weights(const DesiredState& state) {
  REQUIRE(state.services.size() == 1);
  const auto& planned = state.services.begin()->second;
  Weights weights;
  for (std::size_t i = 0; i < planned.servers.size(); ++i)
    weights.push_back(planned.server(i).weight);
  return weights;
}

Weights planned_weights(const api::Service& service, const Weights& weights,
                        const PlannerOptions& options = with_annotations()) {
  return planned_weights(plan(weighted(service, weights), test::vector_node(), options).state);
}

std::uint32_t largest(const Weights& weights) {
  return *std::ranges::max_element(weights);
}

// Real servers that ip_vs_wrr_schedule() (ip_vs_wrr.c, 6.1) looks at to find none, or one that is
// not full, if all that may be full are.
std::size_t steps_of(const ActualService& service) {
  if (service.service.scheduler.view() != "wrr" || !service.servers) return 0;
  std::uint32_t most = 0;
  std::uint32_t most_free = 0;
  std::uint32_t divisor = 0;
  for (const auto& server : *service.servers) {
    most = std::max(most, server.weight);
    if (server.upper_threshold == 0) most_free = std::max(most_free, server.weight);
    divisor = std::gcd(divisor, server.weight);
  }
  return most == 0 ? 0 : (most - most_free) / divisor * service.servers->size();
}

TEST_CASE(
    "wrr with an upper threshold: the walk of a new connection has a bound, the ratios are "
    "the nearest") {
  const auto service =
      web_annotated({{"ipvs-proxier/scheduler", "wrr"}, {std::string(kLimit), "1"}});
  std::mt19937 random(38);
  const auto up_to = [&](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    Weights asked(1 + up_to(60));
    const auto range = std::vector<std::uint32_t>{1, 20, 1000, 65535}[up_to(3)];
    const auto common = range > 1000 || up_to(1) == 0 ? 1 : 1 + up_to(60);
    for (auto& weight : asked) weight = up_to(range) * common;
    const auto got = planned_weights(service, asked);
    REQUIRE(got.size() == asked.size());
    const auto top = largest(got);
    CHECK(top * got.size() <= kBound);
    const auto most = largest(asked);
    if (most * asked.size() <= kBound) CHECK(got == asked);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      CHECK((got[i] == 0) == (asked[i] == 0));
      if (asked[i] == 0) continue;
      const auto exact = static_cast<double>(asked[i]) * top / most;
      CHECK((std::abs(got[i] - exact) <= 0.5 || (exact < 0.5 && got[i] == 1)));
    }
  }
}

TEST_CASE("wrr with an upper threshold: weights that are too far apart are one warning") {
  auto service = web_annotated({{"ipvs-proxier/scheduler", "wrr"},
                                {"ipvs-proxier/weights", "local:65535"},
                                {std::string(kLimit), "1"}});
  service.type = api::ServiceType::node_port;
  service.ports.front().node_port = 30080;
  std::vector<api::Endpoint> endpoints = {test::e1()};
  for (int i = 0; i < 99; ++i)
    endpoints.push_back(test::endpoint("10.244.7." + std::to_string(i + 1), "n2"));
  const auto cluster = test::cluster_of({service, test::slice_of(service, 8080, endpoints)});
  const auto result = plan(cluster, test::vector_node(), with_annotations());
  CHECK(result.state.services.size() == 3);
  for (const auto& [key, planned] : result.state.services) {
    CHECK(planned.server(0).weight == 100);
    for (std::size_t i = 1; i < 100; ++i) CHECK(planned.server(i).weight == 1);
  }
  CHECK(
      test::lines_of(result.problems) ==
      test::Lines{"warning: Service default/web: metadata.annotations[ipvs-proxier/weights]: the "
                  "scheduler wrr with a limit of connections looks at each real server for each "
                  "step of the weights, so the largest weight times the real servers of a virtual "
                  "service is 10000 at most; the weights are scaled down"});
}

TEST_CASE("wrr with an upper threshold: equal weights and more real servers than the bound") {
  const auto service =
      web_annotated({{"ipvs-proxier/scheduler", "wrr"}, {std::string(kLimit), "1"}});
  // A common divisor costs nothing, and is no problem.
  CHECK(planned_weights(service, Weights(4, 65534)) == Weights(4, 1));
  CHECK(planned_weights(service, {0, 65534, 0, 32767}) == Weights{0, 2, 0, 1});
  // The nearest that is possible.
  Weights many(kBound + 1, 1);
  many.front() = 3;
  auto slice = test::slice_of(service, 8080, {});
  for (std::size_t i = 0; i < many.size(); ++i)
    slice.endpoints.push_back(test::endpoint("10.24" + std::to_string(4 + i / 62'500) + "." +
                                                 std::to_string(i / 250 % 250) + "." +
                                                 std::to_string(i % 250 + 1),
                                             "n2"));
  auto first = test::slice_of(service, 8080, {test::endpoint("10.1.1.1", "n2")}, "first");
  first.weight = 3;
  const auto cluster = test::cluster_of({service, slice, first});
  const auto result = plan(cluster, test::vector_node(), with_annotations());
  CHECK(largest(planned_weights(result.state)) == 1);
  CHECK(result.problems.size() == 1);
}

TEST_CASE("weights stay as they are where no real server can be full, and under other schedulers") {
  const Weights asked = {65535, 1, 7, 0};
  CHECK(planned_weights(web_annotated({{"ipvs-proxier/scheduler", "wrr"}}), asked) == asked);
  CHECK(planned_weights(
            web_annotated({{"ipvs-proxier/scheduler", "wrr"}, {std::string(kLimit), "0"}}),
            asked) == asked);
  for (const auto* scheduler :
       {"ovf", "wlc", "sed", "nq", "lblc", "lblcr", "mh", "sh", "fo", "twos"})
    CHECK(planned_weights(
              web_annotated({{"ipvs-proxier/scheduler", scheduler}, {std::string(kLimit), "1"}}),
              asked) == asked);
  // The node's own limit and scheduler count as well.
  auto node = with_annotations();
  node.max_connections.upper = 5;
  node.scheduler = "wrr";
  const auto got = planned_weights(web_annotated({}), asked, node);
  CHECK(got == Weights{2500, 1, 1, 0});
}

// Seen from the kernel, after each operation, while one state becomes another.
TEST_CASE("wrr with an upper threshold: the bound holds at each moment of a change") {
  const std::vector<std::string> schedulers = {"wrr", "wrr", "wrr", "rr", "ovf"};
  std::mt19937 random(381);
  const auto up_to = [&](std::size_t most) { return random() % (most + 1); };
  std::size_t worst = 0;
  for (int round = 0; round < 40; ++round) {
    KernelModel kernel;
    bool begun = false;
    for (int change = 0; change < 6; ++change) {
      const auto limit = std::vector<std::string>{"0", "1", "5"}[up_to(2)];
      const auto service = web_annotated(
          {{"ipvs-proxier/scheduler", schedulers[up_to(4)]}, {std::string(kLimit), limit}});
      Weights weights(1 + up_to(up_to(1) == 0 ? 3 : 120));
      const std::uint32_t range = up_to(1) == 0 ? 3 : 65535;
      for (auto& weight : weights) weight = static_cast<std::uint32_t>(up_to(range));
      const auto desired =
          plan(weighted(service, weights, up_to(40)), test::vector_node(), with_annotations())
              .state;
      if (!std::exchange(begun, true)) kernel = KernelModel::empty_for(desired);
      const auto go = [&] {
        for (const auto& phase : diff(desired, kernel.state).phases) {
          const auto* ops = std::get_if<std::vector<netlink::IpvsOp>>(&phase.work);
          if (ops == nullptr) {
            kernel.apply(phase);
            continue;
          }
          for (const auto& op : *ops) {
            kernel.apply(Phase{phase.name, std::vector{op}});
            for (const auto& [key, one] : *kernel.state.services)
              worst = std::max(worst, steps_of(one));
          }
        }
      };
      go();
      go();  // what waited for another scheduler
      if (up_to(1) == 0) {
        kernel.finish_drains(desired);
        go();
        CHECK(diff(desired, kernel.state).empty());
      }
    }
    CHECK(kernel.violations == 0);
  }
  CHECK(worst <= kBound);
}

}  // namespace
}  // namespace ipvsproxier::plan
