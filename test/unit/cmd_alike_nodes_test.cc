// Nodes that may be this node under another name.

#include "cmd/alike_nodes.h"

#include <catch2/catch.hpp>

#include "test/support/cluster_builder.h"

namespace ipvsproxier::cmd {
namespace {

using test::ip;
using Names = std::vector<std::string>;

TEST_CASE("names are alike that differ in case or domain") {
  CHECK(is_alike("n1", "n1.example.internal"));
  CHECK(is_alike("n1.example.internal", "n1"));
  CHECK(is_alike("N1", "n1"));
  CHECK(is_alike("n1.a.example", "n1.b.example"));
  CHECK_FALSE(is_alike("n1", "n11.example.internal"));
  CHECK_FALSE(is_alike("n1", ""));
  CHECK_FALSE(is_alike("", ""));
  CHECK_FALSE(is_alike("10.0.0.1", "10.0.0.2"));
  CHECK_FALSE(is_alike("n1", "n2"));
}

TEST_CASE("Nodes with an address of this host come first, then alike names, three at most") {
  const std::set own = {ip("10.200.0.1"), ip("fd00::1")};
  const std::vector<api::Node> others = {
      {.name = "n1.example.internal"},
      {.name = "n2", .internal_ips = {ip("10.200.0.3")}},
      {.name = "worker-7", .internal_ips = {ip("10.200.0.3")}, .external_ips = {ip("fd00::1")}}};
  CHECK(alike_nodes("n1", own, others, {}) ==
        Names{"worker-7 (address fd00::1)", "n1.example.internal"});
  CHECK(alike_nodes("n1", {}, {}, {"n1.x", "n1.y", "n1.z", "n1.zz"}) ==
        Names{"n1.x", "n1.y", "n1.z"});
  CHECK(alike_nodes("n1", own, {{.name = "n1.x", .internal_ips = {ip("10.200.0.1")}}}, {"n1.x"}) ==
        Names{"n1.x (address 10.200.0.1)"});
  CHECK(alike_nodes("n9", {}, others, {}).empty());
}

TEST_CASE("alike names of nodes are found in endpoints") {
  const auto service = test::web_service();
  model::Changes changes;
  changes.put(test::slice_of(
      service, 80,
      {test::endpoint("10.244.0.3", "n1.example.internal"), test::endpoint("10.244.0.4", "n2"),
       test::endpoint("10.244.0.5", "n1"), test::endpoint("10.244.0.6", "")}));
  changes.remove({api::ObjectKind::endpoint_slice, {"default", "gone"}});
  std::set<std::string> names;
  note_alike_names("n1", changes, names);
  CHECK(names == std::set<std::string>{"n1.example.internal"});
}

}  // namespace
}  // namespace ipvsproxier::cmd
