// The packet filter that a daemon without --packet-filter chooses, on hosts whose legacy iptables
// drops by policy, with traffic: what the rule that its log names makes possible.

#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "test/kernel/kernel_state.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

constexpr std::uint16_t kCheckedPort = 32100;

ServiceManifest checked_web(const Cluster& cluster) {
  return {
      .name = "web",
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0.9"},
      .ports = {{.name = "tcp", .port = 80, .target = kEchoPort, .node_port = 30080}},
      .endpoints = {{cluster.local(1).v4, kNodeName}},
      .spec = "externalTrafficPolicy: Local, healthCheckNodePort: " + std::to_string(kCheckedPort),
      .ingress_ips = {"192.0.2.10"}};
}

class ChoosingNode {
 public:
  ChoosingNode() { bed_.manifests.put(checked_web(bed_.cluster)); }

  void run(const std::string& command) const {
    bed_.cluster.netns().inside([&] { shell(command); });
  }
  // The daemon, or its successor, with these flags, until it has synchronised.
  void start(std::vector<std::string> flags = {}) {
    if (daemon_) CHECK(daemon_->terminate() == 0);
    auto all = bed_.manifests.flags();
    all.insert(all.end(), flags.begin(), flags.end());
    all.emplace_back("-v=4");  // a sync that changes nothing is logged, too
    daemon_ = std::make_unique<Daemon>(bed_.cluster.netns(), std::move(all));
    daemon_->start();
    const bool synced = daemon_->logs("synced: ");
    INFO(daemon_->log());
    REQUIRE(synced);
  }
  void check_says(const std::vector<std::string>& lines) const {
    INFO(daemon_->log());
    for (const auto& line : lines) {
      INFO(line);
      CHECK(daemon_->log().find(line) != std::string::npos);
    }
  }
  // The rule that the log names, as an administrator would type it.
  void do_as_it_says() const {
    const auto log = daemon_->log();
    const auto at = log.find("; add: ", log.find("before --packet-filter=nftables: "));
    REQUIRE(at != std::string::npos);
    const auto begin = at + std::string("; add: ").size();
    run(log.substr(begin, log.find('\n', begin) - begin));
  }

  bool serves() const {
    const auto& client = bed_.cluster.client();
    return answer(client, Protocol::tcp, "192.0.2.10", 80, kShortWait).starts_with("local-1");
  }
  bool is_checked() const {
    return bed_.cluster.client().netns->inside([&] {
      const auto where = bed_.cluster.node().v4.to_string() + ":" + std::to_string(kCheckedPort);
      return shell("curl -s -m 1 http://" + where + "/ || echo none");
    }) != "none\n";
  }

 private:
  TrafficBed bed_;
  std::unique_ptr<Daemon> daemon_;
};

const std::string kOnIptables = "packet filter: iptables (";
const std::string kOnNftables = "packet filter: nftables (";

TEST_CASE("kernel: filter choice: nf_tables, and a node stays with what it has",
          "[filter_choice]") {
  ChoosingNode node;
  node.start();
  node.check_says({kOnNftables + "nf_tables works here)"});
  CHECK(eventually([&] { return node.serves() && node.is_checked(); }));
  // docker comes later: its policy changes nothing of the choice.
  node.run("iptables-legacy -P FORWARD DROP");
  node.start();
  node.check_says({kOnNftables + "our table of nf_tables is there)"});
}

TEST_CASE("kernel: filter choice: legacy iptables where FORWARD drops, until it is allowed",
          "[filter_choice]") {
  ChoosingNode node;
  node.run("iptables-legacy -P FORWARD DROP");
  node.start();
  node.check_says(
      {kOnIptables + "a chain of this host drops what only rules of legacy iptables can accept)",
       "before --packet-filter=nftables: legacy IPv4 table filter: chain FORWARD drops what pods "
       "answer by its policy"});
  CHECK(eventually([&] { return node.serves(); }));
  // What the choice is good for: nothing of nf_tables lets the answers pass.
  node.start({"--packet-filter=nftables"});
  CHECK(eventually([&] { return !node.serves(); }));
  node.start({"--packet-filter=iptables"});
  CHECK(eventually([&] { return node.serves(); }));
  node.start();
  node.check_says({kOnIptables + "our rules are in legacy iptables)"});
  node.do_as_it_says();
  node.start();
  node.check_says(
      {kOnIptables + "our rules are in legacy iptables)",
       "nothing here needs legacy iptables: --packet-filter=nftables changes the node"});
  node.start({"--packet-filter=nftables"});
  CHECK(eventually([&] { return node.serves(); }));
  node.start();
  node.check_says({kOnNftables + "our table of nf_tables is there)"});
}

TEST_CASE("kernel: filter choice: legacy iptables where INPUT drops health checks",
          "[filter_choice]") {
  ChoosingNode node;
  node.run(
      "iptables-legacy -P INPUT DROP; iptables-legacy -A INPUT -d 192.0.2.0/24 -j ACCEPT; "
      "iptables-legacy -A INPUT -p tcp --dport 22 -j ACCEPT");
  node.start();
  node.check_says(
      {kOnIptables + "a chain of this host drops what only rules of legacy iptables can accept)",
       "chain INPUT may drop what comes for health check node ports by its policy"});
  CHECK(eventually([&] { return node.serves() && node.is_checked(); }));
  node.start({"--packet-filter=nftables"});
  CHECK(eventually([&] { return node.serves(); }));
  CHECK(eventually([&] { return !node.is_checked(); }));
  node.start({"--packet-filter=iptables"});
  node.start();
  node.do_as_it_says();
  node.start({"--packet-filter=nftables"});
  CHECK(eventually([&] { return node.serves() && node.is_checked(); }));
}

}  // namespace
}  // namespace ipvsproxier::test
