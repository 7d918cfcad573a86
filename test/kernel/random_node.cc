#include "test/kernel/random_node.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "proxier/api/object_json.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/support/random_cluster.h"

namespace ipvsproxier::test {

void furnish_node(const Netns& netns) {
  netns.ip(
      "link add eth0 type dummy\n"
      "link add cni0 type dummy\n"
      "addr add 10.0.0.1/24 dev eth0\n"
      "addr add fd00:1::1/64 dev eth0 nodad\n"
      "addr add 10.244.0.1/24 dev cni0\n"
      "link set eth0 up\n"
      "link set cni0 up\n");
}

api::Node furnished_node() {
  return {.name = "n1",
          .zone = "z1",
          .internal_ips = {*netlink::IpAddress::parse("10.0.0.1"),
                           *netlink::IpAddress::parse("fd00:1::1")}};
}

ServedObjects served_objects(const model::ClusterState& cluster) {
  ServedObjects objects;
  for (const auto& [name, service] : cluster.services)
    objects[{Resource::services, name}] = api::to_json(admissible(service));
  for (const auto& [service, slices] : cluster.slices)
    for (const auto& slice : slices)
      objects[{Resource::endpoint_slices, slice.name}] = api::to_json(slice);
  if (cluster.node)
    objects[{Resource::nodes, {"", cluster.node->name}}] = api::to_json(*cluster.node);
  return objects;
}

void serve(ApiServer& server, const ServedObjects& before, const ServedObjects& now) {
  for (const auto& [key, text] : before)
    if (!now.contains(key)) REQUIRE(server.remove(key.resource, key.name.name, key.name.ns));
  for (const auto& [key, text] : now) {
    const auto known = before.find(key);
    if (known == before.end() || known->second != text) REQUIRE(server.put(text));
  }
}

std::vector<std::string> lines_from_scratch(const ApiServer& server, const ServedObjects& objects,
                                            Manifests& manifests) {
  std::string text;
  for (const auto& [key, json] : objects) {
    // The age of a Node says nothing, and the server may have another one by now.
    const bool is_node = key.resource == Resource::nodes;
    auto object = nlohmann::json::parse(
        is_node ? json : server.object(key.resource, key.name.name, key.name.ns));
    object["kind"] = facts_of(key.resource).kind;  // which the store does not repeat
    object["apiVersion"] = facts_of(key.resource).api_version;
    text += "---\n" + object.dump() + "\n";
  }
  manifests.write("objects", text);
  const Netns fresh;
  furnish_node(fresh);
  const auto run = run_once(fresh, manifests);
  INFO(run.log);
  // Services that contend for one address are failures, but nothing else may be missing.
  REQUIRE(run.log.find("synced:") != std::string::npos);
  REQUIRE(run.log.find("left out") == std::string::npos);
  return kernel_lines(fresh);
}

}  // namespace ipvsproxier::test
