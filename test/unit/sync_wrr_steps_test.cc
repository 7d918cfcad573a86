// Weights under wrr with an upper threshold, over the life of a Service: low while many real
// servers are there, as planned once they have left.

#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"
#include "test/support/fake_daemon.h"

namespace ipvsproxier::sync {
namespace {

using namespace std::chrono_literals;
using test::FakeDaemon;
using test::kWeb;

constexpr std::size_t kMany = 98;

api::Endpoint endpoint_number(std::size_t i) {
  return test::endpoint("10.244.7." + std::to_string(i + 1), "n2");
}

netlink::RealServerKey server_number(std::size_t i) {
  return {endpoint_number(i).address, 8080};
}

// e1() with the weight 65535, e2() with 1, and so many more with 1.
model::ClusterState web_of(const std::string& scheduler, std::size_t more,
                           const std::string& most = "5") {
  auto web = test::web_service();
  web.annotations = {{"ipvs-proxier/max-connections", most},
                     {"ipvs-proxier/scheduler", scheduler},
                     {"ipvs-proxier/weights", "local:65535"}};
  std::vector<api::Endpoint> endpoints = {test::e1(), test::e2()};
  for (std::size_t i = 0; i < more; ++i) endpoints.push_back(endpoint_number(i));
  return test::cluster_of({web, test::slice_of(web, 8080, endpoints)});
}

std::uint32_t first_weight(FakeDaemon& daemon) {
  return daemon.weights(kWeb).at(test::kE1);
}

TEST_CASE("wrr with an upper threshold: weights are low until real servers that drain are gone") {
  FakeDaemon daemon;
  daemon.see(web_of("wrr", 0));
  CHECK(first_weight(daemon) == 5000);
  daemon.see(web_of("wrr", kMany));
  CHECK(first_weight(daemon) == 100);
  for (std::size_t i = 0; i < kMany; ++i) daemon.ipvs.set_connections(kWeb, server_number(i), 1, 0);
  daemon.see(web_of("wrr", 0));
  CHECK(daemon.weights(kWeb).at(server_number(0)) == 0);
  CHECK(first_weight(daemon) == 100);
  const auto writes = daemon.writes();
  daemon.wait(60s);
  CHECK(daemon.writes() == writes);
  CHECK(first_weight(daemon) == 100);
  for (std::size_t i = 0; i < kMany; ++i) daemon.ipvs.set_connections(kWeb, server_number(i), 0, 0);
  daemon.wait(10s);
  CHECK(daemon.weights(kWeb).size() == 2);
  CHECK(first_weight(daemon) == 5000);
  CHECK_FALSE(daemon.says("others changed"));
  CHECK(daemon.differences().empty());
  CHECK(daemon.watch.broken.empty());
}

TEST_CASE(
    "wrr with an upper threshold: another scheduler, or no threshold, gets the weights that "
    "are asked for") {
  FakeDaemon daemon;
  daemon.see(web_of("wrr", 0));
  daemon.see(web_of("ovf", 0));
  daemon.wait(1s);
  CHECK(first_weight(daemon) == 65535);
  daemon.see(web_of("wrr", 0));
  daemon.wait(1s);
  CHECK(first_weight(daemon) == 5000);
  daemon.see(web_of("wrr", 0, "0"));
  CHECK(first_weight(daemon) == 65535);
  CHECK(daemon.differences().empty());
  CHECK_FALSE(daemon.says("others changed"));
}

}  // namespace
}  // namespace ipvsproxier::sync
