// How many rules of legacy iptables packets meet beside 2,000 addresses of policy Local, and what a
// change of one Service writes.

#include <algorithm>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/support/ip.h"

namespace ipvsproxier::test {
namespace {

// Packets that each rule of legacy iptables has matched, by chain.
using Matched = std::map<std::string, std::vector<std::uint64_t>>;

Matched matched(const Cluster& cluster) {
  std::istringstream saved(cluster.netns().inside(
      [] { return shell("iptables-legacy-save -c -t nat; iptables-legacy-save -c -t filter"); }));
  Matched result;
  std::string table;
  for (std::string line; std::getline(saved, line);) {
    if (line.starts_with("*")) table = line.substr(1) + " ";
    if (!line.starts_with("[")) continue;
    std::istringstream words(line);
    std::string counts;
    std::string verb;
    std::string chain;
    words >> counts >> verb >> chain;
    result[table + chain].push_back(std::stoull(counts.substr(1)));
  }
  return result;
}

// The rules that one packet there and its answer met: in each chain those up to the last one that
// matched. Behind that one, rules that do not match are not seen: chains that end so are few.
std::size_t rules_met(const Matched& before, const Matched& after) {
  std::size_t met = 0;
  for (const auto& [chain, counts] : after) {
    const auto& earlier = before.at(chain);
    for (auto i = counts.size(); i > 0; --i) {
      if (counts[i - 1] == earlier.at(i - 1)) continue;
      met += i;
      break;
    }
  }
  return met;
}

std::size_t met_by(const Cluster& cluster, const Host& host, const Target& target) {
  const auto before = matched(cluster);
  const auto answer = host.ask(netlink::Protocol::udp, target.address, target.port);
  INFO(host.name << " asks " << target.address.to_string());
  CHECK((answer ? answer->server : netlink::to_string(answer.error())) == "remote-1");
  return rules_met(before, matched(cluster));
}

constexpr int kManyServices = 200;
constexpr int kAddressesOfService = 10;

// Of Services 0 to 199, whose addresses are scattered.
std::string many_address(int service, int number) {
  return "198.18." + std::to_string((service * 37 + number * 11) % 256) + "." +
         std::to_string(service);
}

std::string many_services(const Pod& pod, int services) {
  std::string text;
  for (int i = 0; i < services; ++i) {
    ServiceManifest service{
        .name = "many-" + std::to_string(i),
        .type = "LoadBalancer",
        .cluster_ips = {"10.96.1." + std::to_string(i)},
        .ports = {{.name = "u", .protocol = netlink::Protocol::udp, .port = 80}},
        .endpoints = {{pod.v4, pod.node}},
        .spec = "externalTrafficPolicy: Local"};
    for (int j = 0; j < kAddressesOfService; ++j) service.ingress_ips.push_back(many_address(i, j));
    text += service_yaml(service) + slices_yaml(service);
  }
  return text;
}

TEST_CASE("kernel: 2,000 addresses of policy Local cost packets few rules, and a change one commit",
          "[.local_policy_rules]") {
  const Cluster cluster({.local_pods = 2, .remote_pods = 1});
  Manifests manifests;
  const auto& pod = cluster.remote(1);
  ServiceManifest other{.name = "other",
                        .type = "LoadBalancer",
                        .cluster_ips = {"10.96.0.9"},
                        .ports = {{.name = "u", .protocol = netlink::Protocol::udp, .port = 80}},
                        .endpoints = {{pod.v4, pod.node}},
                        .ingress_ips = {"192.0.2.10"}};
  manifests.put(other);
  // One that is not sent on: the rules of policy Local that kube-proxy has too are there before.
  auto local = other;
  local.name = "local";
  local.cluster_ips = {"10.96.0.10"};
  local.spec = "externalTrafficPolicy: Local, internalTrafficPolicy: Local";
  local.ingress_ips = {"192.0.2.11"};
  manifests.put(local);
  auto flags = manifests.flags();
  flags.emplace_back("--packet-filter=iptables");
  Daemon daemon(cluster.netns(), flags);
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  const Host& asker = cluster.local(2);
  const std::vector<std::pair<const Host*, Target>> others{
      {&asker, {ip("10.96.0.9"), 80}},
      {&cluster.node(), {ip("10.96.0.9"), 80}},
      {&asker, {ip("192.0.2.10"), 80}},
      {&cluster.client(), {ip("192.0.2.10"), 80}}};
  std::vector<std::size_t> before;
  for (const auto& [host, target] : others) before.push_back(met_by(cluster, *host, target));

  daemon.mark();
  manifests.write("many", many_services(pod, kManyServices));
  REQUIRE(daemon.logs("synced: ", 120'000));
  std::size_t least_of_others = SIZE_MAX;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto met = met_by(cluster, *others[i].first, others[i].second);
    least_of_others = std::min(least_of_others, met);
    INFO("other " << i << ": " << before[i] << ", then " << met);
    CHECK(met <= before[i] + 2);
  }
  std::size_t most = 0;
  for (int i = 0; i < kManyServices; i += 9)
    for (const Host* host : {&asker, &cluster.node()})
      most = std::max(most, met_by(cluster, *host, {ip(many_address(i, i % 10)), 80}));
  INFO("at most " << most << ", others at least " << least_of_others);
  CHECK(most <= least_of_others + 20);

  daemon.mark();
  manifests.write("many", many_services(pod, kManyServices - 1));
  REQUIRE(daemon.logs("rule tables 1,", 60'000));
  WARN("rules met: " << most << " at most, others at least " << least_of_others << "\n"
                     << daemon.log());
}

}  // namespace
}  // namespace ipvsproxier::test
