#pragma once

// What tests with random clusters behind the test API server share: a node for RandomCluster, the
// objects of a cluster as the server keeps them, and what a fresh run makes of them.

#include <map>
#include <string>
#include <vector>

#include "proxier/api/names.h"
#include "proxier/model/cluster_state.h"
#include "test/kernel/manifests.h"
#include "test/kernel/netns.h"
#include "test/support/api_server/api_server.h"

namespace ipvsproxier::test {

struct ServedKey {
  Resource resource = Resource::services;
  api::NamespacedName name;
  friend auto operator<=>(const ServedKey&, const ServedKey&) = default;
};
using ServedObjects = std::map<ServedKey, std::string>;  // JSON

// eth0, cni0 and their addresses, those of RandomCluster::node().
void furnish_node(const Netns& netns);
// Node n1 of zone z1 with its addresses.
api::Node furnished_node();

ServedObjects served_objects(const model::ClusterState& cluster);

// The server has `now` in the place of `before`.
void serve(ApiServer& server, const ServedObjects& before, const ServedObjects& now);

// What a fresh run makes in a fresh namespace of these objects as the server keeps them, with the
// configuration of `manifests`. Fails the case if that says that something is left out.
std::vector<std::string> lines_from_scratch(const ApiServer& server, const ServedObjects& objects,
                                            Manifests& manifests);

}  // namespace ipvsproxier::test
