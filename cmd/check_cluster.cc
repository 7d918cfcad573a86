#include "cmd/check_cluster.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cmd/alike_nodes.h"
#include "cmd/api_client.h"
#include "cmd/node_check.h"
#include "proxier/access/access_choice.h"
#include "proxier/check/api_probe.h"
#include "proxier/loop/main_loop.h"
#include "proxier/manifests/manifest_source.h"
#include "proxier/watch/api_source.h"

namespace ipvsproxier::cmd {

namespace {

// A sample is enough to show what is wrong everywhere, and cheap for the API server.
struct Sample {
  std::string_view name;
  api::ObjectKind kind;
  std::size_t most;
};
constexpr auto kSamples = std::to_array<Sample>({
    {"some Services", api::ObjectKind::service, 500},
    {"some EndpointSlices", api::ObjectKind::endpoint_slice, 100},
    {"some Nodes", api::ObjectKind::node, 100},
});
constexpr std::size_t kMostAddresses = 1000;

using Lists = std::vector<manifests::ManifestFile>;

// What a daemon asks for, and the samples.
std::vector<check::ApiResource> api_resources(const std::string& node_name, Lists& lists) {
  const auto take = [&lists, node_name](const std::string& list) {
    lists.push_back(manifests::read_manifest_text(list, "", node_name));
  };
  std::vector<check::ApiResource> resources;
  for (const auto& one : watch::followed_resources(node_name)) {
    resources.push_back({.name = one.name,
                         .kind = one.kind,
                         .target = one.path + "?" + one.selector,
                         .on_sample = {}});
    const auto& sample = *std::ranges::find(kSamples, one.kind, &Sample::kind);
    // The selector of Nodes names this node's alone.
    const bool all = one.kind == api::ObjectKind::node;
    resources.push_back({.name = std::string(sample.name),
                         .kind = one.kind,
                         .target = all ? one.path : one.path + "?" + one.selector,
                         .most = sample.most,
                         .on_sample = take});
  }
  return resources;
}

// Asks the server that a daemon would follow.
std::vector<check::ApiFact> ask_api(const Options& options, Lists& lists, spdlog::logger& logger) {
  const std::string question = "find the API server";
  auto choice = access::choose_access(options.config.client_connection.kubeconfig, options.master,
                                      access::PodPlace::from_environment());
  if (!choice.source) {
    std::vector<check::ApiFact> facts;
    for (const auto& problem : choice.problems)
      facts.push_back({.question = question, .error = api::to_string(problem)});
    if (facts.empty()) facts.push_back({.question = question, .error = "none is configured"});
    return facts;
  }
  loop::MainLoop loop;
  ApiClient client(*std::move(choice.source), loop, logger);
  check::ApiProbe probe(api_resources(options.node_name, lists), client.transport, loop,
                        [&loop] { loop.quit(); });
  probe.start();
  loop.run();
  return probe.facts();
}

std::vector<check::NodeAddressFact> addresses_of_nodes(const model::Changes& changes,
                                                       const std::vector<api::Node>& nodes) {
  std::map<netlink::IpAddress, std::string> owners;
  for (const auto& node : nodes)
    for (const auto* list : {&node.internal_ips, &node.external_ips})
      for (const auto& address : *list) owners.emplace(address, node.name);
  std::vector<check::NodeAddressFact> found;
  for (const auto& [name, service] : changes.services) {
    if (!service) continue;
    for (const auto* list : {&service->external_ips, &service->load_balancer_ips})
      for (const auto& address : *list)
        if (const auto owner = owners.find(address);
            owner != owners.end() && found.size() < kMostAddresses)
          found.push_back(
              {.service = to_string(name), .address = address.to_string(), .node = owner->second});
  }
  return found;
}

// That a sample is refused or large is no fault: a daemon does not ask for it, and each Service may
// be as large as its owner likes.
void set_samples_apart(std::vector<check::ApiFact>& facts, std::vector<std::string>& unread) {
  std::erase_if(facts, [&](const check::ApiFact& fact) {
    if (std::ranges::none_of(
            kSamples, [&](const Sample& sample) { return fact.question.ends_with(sample.name); }))
      return false;
    if (!fact.error.empty()) unread.push_back(fmt::format("{}: {}", fact.question, fact.error));
    return true;
  });
}

}  // namespace

void read_cluster(const Options& options, check::NodeFacts& facts, spdlog::logger& logger) {
  Lists lists;
  manifests::Manifests objects;
  if (options.manifests.empty()) {
    facts.api = ask_api(options, lists, logger);
    set_samples_apart(facts.api, facts.unread);
    objects = manifests::merge_manifests(lists);
  } else {
    objects = manifests::load_manifests(options.manifests, options.node_name);
  }
  const auto changes = manifests::changes_of(objects);
  const bool has_none = options.manifests.empty()
                            ? std::ranges::any_of(facts.api, &check::ApiFact::has_none)
                            : !changes.node;
  // Which addresses are this node's own is not known without its Node.
  if (!has_none) {
    facts.node_addresses = addresses_of_nodes(changes, objects.other_nodes);
    return;
  }
  std::set<std::string> alike;
  note_alike_names(options.node_name, changes, alike);
  facts.no_node = no_node_text(options, objects.other_nodes, alike);
  facts.has_no_nodes = !options.manifests.empty() && objects.other_nodes.empty() && alike.empty();
}

}  // namespace ipvsproxier::cmd
