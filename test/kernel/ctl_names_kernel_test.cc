// ipvsctl with the cluster's names, beside a daemon that knows them.

#include <sys/stat.h>

#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/support/ip.h"
#include "test/support/paths.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A daemon that has programmed default/web, with two pods and a node port, and default/empty. It
// reads the kernel so seldom that what a test breaks stays broken, however slow the machine is.
class NamedWorld {
 public:
  explicit NamedWorld(const std::string& configuration = "") {
    manifests_.configure(
        std::string("ipvs: {syncPeriod: 1h}\ndetectLocalMode: ClusterCIDR\nclusterCIDR: \"") +
        kPodRanges + "\"\n" + configuration);
    put_web("ready: true, serving: true, terminating: false");
    manifests_.put({.name = "empty", .cluster_ips = {"10.96.0.30"}});
    daemon_.start();
    REQUIRE(daemon_.logs("synced: "));
  }

  void put_web(const std::string& conditions_of_second) {
    manifests_.put({.name = "web",
                    .type = "NodePort",
                    .cluster_ips = {"10.96.0.20"},
                    .ports = {{.name = "http", .node_port = 30080}},
                    .endpoints = {{cluster_.local(1).address(netlink::Family::ipv4), "n1"},
                                  {cluster_.remote(1).address(netlink::Family::ipv4), "n2",
                                   conditions_of_second}}});
  }

  // default/wide with so many slices of 1,000 pods each.
  void put_wide(std::size_t slices) {
    auto yaml = service_yaml({.name = "wide", .cluster_ips = {"10.96.0.40"}});
    for (std::size_t slice = 0; slice < slices; ++slice) {
      yaml += fmt::format(R"(---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: wide-{}, namespace: default, labels: {{kubernetes.io/service-name: wide}}}}
addressType: IPv4
ports: [{{name: "", protocol: TCP, port: 8080}}]
endpoints:
)",
                          slice);
      for (std::size_t n = 0; n < 1000; ++n)
        yaml += fmt::format(
            "- {{addresses: [10.250.{}.{}], nodeName: n2, conditions: {{ready: true}},"
            " targetRef: {{kind: Pod, namespace: default, name: wide-pod-{}}}}}\n",
            4 * slice + n / 250, n % 250, 1000 * slice + n);
    }
    manifests_.write("wide", yaml);
  }

  std::string ask(const std::string& words) {
    std::string text;
    cluster_.netns().inside([&] {
      text = shell(ipvsctl_word() + " " + words + " --control-socket " + socket_ +
                   " 2>&1; echo status $?");
    });
    return text;
  }
  Daemon& daemon() { return daemon_; }
  const Cluster& cluster() const { return cluster_; }

 private:
  std::vector<std::string> flags() {
    auto flags = manifests_.flags();
    flags.push_back("--control-socket=" + socket_);
    return flags;
  }

  TempDir dir_;
  const std::string socket_ = (dir_.path() / "control.sock").string();
  Cluster cluster_{{.local_pods = 1, .remote_pods = 1}};
  Manifests manifests_;
  Daemon daemon_{cluster_.netns(), flags()};
};

TEST_CASE("kernel: ipvsctl lists with the names of the cluster, and without a daemon without") {
  NamedWorld world;
  const auto all = world.ask("list");
  INFO(all);
  CHECK(holds(all, "TCP  10.96.0.20:80 rr "));
  CHECK(holds(all, " default/web:http                     cluster IP\n"));
  CHECK(holds(all, " default/web:http                     node port\n"));
  CHECK(holds(all, " default/empty                        cluster IP\n"));
  CHECK(holds(all, " n2\n"));
  CHECK(all.ends_with("status 0\n"));
  const auto some = world.ask("list --service default/web --ipvsadm");
  CHECK(holds(some, "10.96.0.20:80"));
  CHECK(holds(some, ":30080"));
  CHECK_FALSE(holds(some, "10.96.0.30"));
  CHECK_FALSE(holds(some, "default/web"));
  CHECK_FALSE(holds(world.ask("list -N shop"), "TCP"));
  const auto json = world.ask("list -o json --vip 10.96.0.20");
  const auto document = nlohmann::json::parse(json.substr(0, json.rfind('}') + 1));
  CHECK(document["virtualServices"][0]["service"]["name"] == "web");
  CHECK(document["virtualServices"][0]["realServers"][0]["endpoint"]["ready"] == true);
  CHECK(holds(world.ask("explain node 10.96.0.20:80"),
              "Virtual service 10.96.0.20:80/TCP (default/web:http, cluster IP).\n"));

  world.daemon().terminate();
  const auto bare = world.ask("list");
  INFO(bare);
  CHECK(holds(bare, "ipvsctl: names of the cluster are not known: no ipvs-proxier answers on "));
  CHECK(holds(bare, "TCP  10.96.0.20:80 rr\n"));
  CHECK(bare.ends_with("status 0\n"));
  CHECK_FALSE(holds(world.ask("list -n"), "not known"));
  CHECK_FALSE(holds(world.ask("list --ipvsadm"), "not known"));
  CHECK_FALSE(holds(world.ask("list -o save"), "not known"));
  CHECK(world.ask("list -N default").ends_with("status 1\n"));
}

TEST_CASE("kernel: ipvsctl lists all names of a Service that is told in parts") {
  constexpr std::size_t kSlices = 7;  // some 390 KB of names; a part is little more than 256 KB
  NamedWorld world;
  world.daemon().mark();
  world.put_wide(kSlices);
  REQUIRE(world.daemon().logs("synced: "));
  const auto list = world.ask("list --service default/wide");
  std::set<std::string> pods;
  std::istringstream words(list);
  for (std::string word; words >> word;)
    if (word.starts_with("wide-pod-")) pods.insert(word);
  INFO(list.substr(0, 2000));
  CHECK(pods.size() == 1000 * kSlices);
  CHECK(holds(list, "TCP  10.96.0.40:80 rr "));
  // Its plan is made of the objects, which come in parts too.
  const auto differences = world.ask("diff");
  INFO(differences.substr(0, 2000));
  CHECK(differences.ends_with("status 0\n"));
}

TEST_CASE("kernel: ipvsctl service tells all of one Service, and what others broke") {
  NamedWorld world;
  const auto page = world.ask("service default/web");
  INFO(page);
  CHECK(holds(page, "Service                 default/web\nType                    NodePort\n"));
  CHECK(holds(page, "used, on this node  node n1\n"));
  CHECK(holds(page, "Virtual service 10.96.0.20:80/TCP, cluster IP, rr\n"));
  CHECK(holds(page, "  -> 10.244.1.11:8080 "));
  CHECK(
      holds(page, "Set KUBE-CLUSTER-IP\n  10.96.0.20,tcp:80\n  asked by IPv4 nat KUBE-SERVICES: "));
  CHECK(holds(page, "Set KUBE-NODE-PORT-TCP\n  30080\n"));
  CHECK(holds(page, "\nLast change  20"));
  CHECK_FALSE(holds(page, "NOT IN THE KERNEL"));
  CHECK_FALSE(holds(page, "Not known"));
  CHECK(page.ends_with("status 0\n"));
  for (const char* other : {"10.96.0.20", "10.96.0.20:80", "10.244.1.11", "10.244.1.11:8080"}) {
    const auto same = world.ask(std::string("service ") + other);
    INFO(other << "\n" << same);
    CHECK(holds(same, "Service                 default/web\n"));
  }
  const auto json = world.ask("service default/web -o json");
  const auto document = nlohmann::json::parse(json.substr(0, json.rfind('}') + 1))["services"][0];
  CHECK(document["service"]["spec"]["type"] == "NodePort");
  CHECK(document["virtualServices"].size() >= 2);
  CHECK(document["ports"][0]["internal"]["endpoints"].size() == 2);
  CHECK(holds(world.ask("service default/web -o yaml"), "services:\n"));

  const auto none = world.ask("service default/nothing");
  CHECK(holds(none, "there is no Service default/nothing"));
  CHECK(none.ends_with("status 2\n"));

  world.cluster().netns().inside(
      [] { shell("ipvsadm -D -t 10.96.0.20:80; ipset del KUBE-CLUSTER-IP 10.96.0.20,tcp:80"); });
  const auto broken = world.ask("service default/web");
  INFO(broken);
  CHECK(holds(broken, "Virtual service 10.96.0.20:80/TCP, cluster IP: NOT IN THE KERNEL\n"));
  CHECK(holds(broken, "  10.96.0.20,tcp:80  NOT IN THE KERNEL\n"));
}

TEST_CASE(
    "kernel: ipvsctl service tells what drains, why an endpoint is not used, and for how long") {
  NamedWorld world;
  const auto stream = require(world.cluster().node().open_stream(ip("10.96.0.20"), 80));
  const auto other = require(world.cluster().node().open_stream(ip("10.96.0.20"), 80));
  world.daemon().mark();
  world.put_web("ready: false, serving: false, terminating: true");
  REQUIRE(world.daemon().logs("synced: "));
  const auto page = world.ask("service default/web");
  INFO(page);
  CHECK(holds(page, "  - 10.244.1.11:8080                             terminating  node n2\n"));
  CHECK(holds(page, "  -> 10.244.1.11:8080                            weight 0 (draining), "));
  CHECK(holds(page,
              "Draining (weight 0, until its connections are gone)\n"
              "  10.96.0.20:80/TCP -> 10.244.1.11:8080  for "));
  CHECK(holds(page, ", as long as they last\n"));
}

TEST_CASE("kernel: ipvsctl top and connections name Services and pods while there is traffic") {
  NamedWorld world;
  std::jthread traffic([&](const std::stop_token& stop) {
    while (!stop.stop_requested())
      static_cast<void>(world.cluster().node().ask(netlink::Protocol::tcp, ip("10.96.0.20"), 80));
  });
  // The first table may be of a time before the kernel counted anything.
  const auto services = world.ask("top --count 3 --interval 2");
  INFO(services);
  CHECK(holds(services, "\ndefault/web:http "));
  CHECK(holds(services, "\ndefault/empty "));
  const auto backends = world.ask("top --by backend --count 2 --interval 2");
  INFO(backends);
  CHECK(holds(backends, "10.244.0.11:8080"));
  const auto connections = world.ask("connections --sort-by state");
  INFO(connections);
  CHECK(holds(connections, "default/web:http"));
  CHECK(connections.ends_with("status 0\n"));

  CHECK(holds(world.ask("connections -N default --port 80"), "10.96.0.20:80 default/web:http "));
  const auto numbers = world.ask("connections -n --service default/web");
  INFO(numbers);
  CHECK(holds(numbers, "10.96.0.20:80   "));
  CHECK_FALSE(holds(numbers, "default/web"));
  for (const char* other : {"--service default/empty", "-N shop"}) {
    const auto none = world.ask(std::string("connections ") + other);
    INFO(none);
    CHECK(none.starts_with("Prot Expires"));
    CHECK_FALSE(holds(none, "TCP"));
    CHECK(none.ends_with("Backend\nstatus 0\n"));
  }
  world.daemon().terminate();
  const auto unknown = world.ask("connections -n -N default");
  CHECK(unknown.starts_with("ipvsctl: no ipvs-proxier answers on "));
  CHECK_FALSE(holds(unknown, "Prot"));
  CHECK(unknown.ends_with("status 1\n"));
}

TEST_CASE("kernel: probes are answered wherever the health server listens, also where it cannot") {
  // The second address is not this node's.
  const std::string address = GENERATE("127.0.0.1:10266", "192.0.2.77:10256");
  NamedWorld world("healthzBindAddress: " + address + "\n");
  CHECK(world.ask("status --probe=livez") == "livez: yes\nstatus 0\n");
  CHECK(world.daemon().logs("192.0.2.77", 0) == address.starts_with("192"));
  // What is synced is published a moment later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  auto health = world.ask("status --probe=healthz");
  while (!health.ends_with("status 0\n") && std::chrono::steady_clock::now() < deadline)
    health = world.ask("status --probe=healthz");
  CHECK(health == "healthz: yes\nstatus 0\n");
  world.daemon().terminate();
  const auto none = world.ask("status --probe=livez");
  CHECK(none.starts_with("ipvsctl: no ipvs-proxier answers on "));
  CHECK(none.ends_with("\nstatus 2\n"));
}

TEST_CASE("kernel: ipvsctl sets says whom elements are for") {
  NamedWorld world;
  world.cluster().netns().inside([] { shell("ipset add KUBE-CLUSTER-IP 10.96.0.123,tcp:80"); });
  CHECK(world.ask("sets KUBE-CLUSTER-IP") ==
        "10.96.0.20,tcp:80  default/web:http\n"
        "10.96.0.30,tcp:80  default/empty\n"
        "10.96.0.123,tcp:80 -: no Service has it\nstatus 0\n");
  CHECK(world.ask("sets KUBE-NODE-PORT-TCP") == "30080 default/web:http\nstatus 0\n");
  CHECK(world.ask("sets KUBE-LOOP-BACK") ==
        "10.244.0.11,tcp:8080,10.244.0.11 default/web\nstatus 0\n");
  const auto json = world.ask("sets KUBE-IPVS-IPS -o json");
  const auto document = nlohmann::json::parse(json.substr(0, json.rfind('}') + 1));
  CHECK(document["elements"] == nlohmann::json::array({"10.96.0.20", "10.96.0.30"}));
  CHECK(document["owners"]["10.96.0.30"] == nlohmann::json::array({"default/empty"}));

  const std::string bare = "10.96.0.20,tcp:80\n10.96.0.30,tcp:80\n10.96.0.123,tcp:80\nstatus 0\n";
  CHECK(world.ask("sets -n KUBE-CLUSTER-IP") == bare);
  world.daemon().terminate();
  const auto unknown = world.ask("sets KUBE-CLUSTER-IP");
  INFO(unknown);
  CHECK(unknown.starts_with("ipvsctl: names of the cluster are not known: "));
  CHECK(unknown.ends_with("\n" + bare));
}

TEST_CASE("kernel: ipvsctl service without a daemon tells what the kernel has of an address") {
  NamedWorld world;
  world.daemon().terminate();
  const auto page = world.ask("service 10.96.0.20");
  INFO(page);
  CHECK(holds(page, "Address                 10.96.0.20\n"));
  CHECK(holds(page, "Virtual service 10.96.0.20:80/TCP, rr\n"));
  CHECK(holds(page, "Set KUBE-CLUSTER-IP\n  10.96.0.20,tcp:80\n  asked by "));
  CHECK(holds(page,
              "Not known: whose address this is, and which endpoints are used and why; no "
              "ipvs-proxier answers on "));
  CHECK(page.ends_with("status 1\n"));
  const auto named = world.ask("service default/web");
  CHECK(holds(named, "which addresses default/web has only the daemon knows: no ipvs-proxier"));
  CHECK(named.ends_with("status 2\n"));
}

}  // namespace
}  // namespace ipvsproxier::test
