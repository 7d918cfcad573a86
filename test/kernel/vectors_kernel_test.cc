// The test vectors (test/support/vectors.h; docs/kube-proxy.md, section 20): the daemon programs
// one after the other, and each leaves the kernel as it says and nothing of the one before.

#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>

#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/support/raw_http.h"
#include "test/support/vectors.h"

namespace ipvsproxier::test {
namespace {

using Lines = std::vector<std::string>;

constexpr std::uint16_t kMetrics = 10249;

struct VectorState {
  Lines state;  // as Vector::state
  std::map<std::string, Lines> rules;
};

VectorState read_state(const Netns& netns) {
  std::istringstream output(netns.inside([] {
    return shell(
        "set -e; ipvsadm -Sn; ipset save; ip -o addr show dev kube-ipvs0; iptables-save;"
        " echo end");
  }));
  VectorState result;
  for (std::string line; std::getline(output, line);) {
    std::istringstream words(line);
    std::string word;
    std::string next;
    words >> word >> next;
    if (word == "-A" && next[0] != '-') {
      std::getline(words >> std::ws, line);
      result.rules[next].push_back(line);
    } else if (word == "-A" || word == "-a" || word == "add") {
      result.state.push_back(line);
    } else if (next == "kube-ipvs0") {
      words >> word >> next;
      result.state.push_back(word + " " + next);
    }
  }
  for (auto& line : result.state) line.erase(line.find_last_not_of(' ') + 1);
  std::sort(result.state.begin(), result.state.end());
  return result;
}

std::string config_of(const Vector& vector) {
  std::string lines =
      std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: ") + kVectorPods + "\n";
  if (vector.node_port_primary) lines += "nodePortAddresses: [primary]\n";
  if (!vector.scheduler.empty()) lines += "ipvs: {scheduler: " + vector.scheduler + "}\n";
  return lines;
}

// The node of the vectors, and the daemon on it.
struct VectorNode {
  Netns netns;
  Manifests manifests;
  Daemon daemon{netns, flags()};
  std::string config;
  std::string service;  // as it was written last
  std::size_t service_changes = 0;

  VectorNode() {
    netns.ip(
        "link add eth0 type dummy\nlink set eth0 up\naddr add 10.0.0.1/24 dev eth0\n"
        "addr add fd00:1::1/64 dev eth0 nodad\nlink add cni0 type dummy\nlink set cni0 up\n"
        "addr add 10.244.0.1/24 dev cni0\n");
    manifests.write("nodes",
                    "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
                    "status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}\n");
  }

  std::vector<std::string> flags() const {
    auto result = manifests.flags();
    result.emplace_back("--kube-proxy-compat");
    return result;
  }

  // Another configuration is another process.
  void put(const Vector& vector) {
    const bool restart = config_of(vector) != config;
    if (restart) {
      if (daemon.runs()) REQUIRE(daemon.terminate() == 0);
      config = config_of(vector);
      manifests.configure(config);
      service_changes = 0;
    }
    if (restart || service_yaml(vector.service) != service) ++service_changes;
    service = service_yaml(vector.service);
    daemon.mark();
    manifests.put(vector.service);
    if (restart) daemon.start();
    REQUIRE(daemon.logs("synced: "));
  }

  std::string metric(const std::string& name) const {
    const auto text = netns.inside([] { return http_get(kMetrics, "/metrics").body; });
    const auto at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "no " + name;
    const auto value = at + name.size() + 2;
    return text.substr(value, text.find('\n', value) - value);
  }
  std::string lack(const std::string& policy) const {
    return metric(
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family=\"IPv4\","
        "traffic_policy=\"" +
        policy + "\"}");
  }
};

void check_health(const VectorNode& node, const VectorHealth& expected) {
  const auto answer = [&] {
    return node.netns.inside([&] { return http_get(expected.port, "/", "GET", "10.0.0.1"); });
  };
  CHECK(eventually([&] { return answer().status == expected.status; }));
  CHECK(answer().headers["X-Load-Balancing-Endpoint-Weight"] == std::to_string(expected.weight));
}

void check_vector(VectorNode& node, const Vector& vector) {
  node.put(vector);
  VectorState found;
  std::string differs;
  // An idle real server that leaves is removed with the first look at it.
  const bool reached = eventually([&] {
    found = read_state(node.netns);
    return (differs = difference(vector.state, found.state)) == "";
  });
  INFO(differs << node.daemon.log());
  CHECK(reached);
  for (const auto& [chain, rules] : vector.rules) {
    INFO(chain);
    CHECK(found.rules[chain] == rules);
  }
  if (vector.health) check_health(node, *vector.health);
  CHECK(node.lack("internal") == std::to_string(vector.internal_lack));
  CHECK(node.lack("external") == std::to_string(vector.external_lack));
}

TEST_CASE("kernel: vectors: the daemon leaves what the reference's vectors say", "[item-20]") {
  // Those with one configuration together.
  std::vector<const Vector*> order;
  for (const auto& vector : vectors()) order.push_back(&vector);
  std::stable_sort(order.begin(), order.end(), [](const Vector* left, const Vector* right) {
    return config_of(*left) < config_of(*right);
  });
  VectorNode node;
  for (const auto* vector : order) {
    INFO("vector " << vector->name);
    check_vector(node, *vector);
    // Of the whole proxy: once, though it has two families.
    CHECK(node.metric("kubeproxy_sync_proxy_rules_service_changes_total") ==
          std::to_string(node.service_changes));
  }
}

}  // namespace
}  // namespace ipvsproxier::test
