// From kube-proxy in ipvs mode and back: its saved kernel states (test/reference/shop) are taken
// over without a write, and --cleanup leaves a node as if neither had been there.

#include <catch2/catch.hpp>

#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/load.h"
#include "test/kernel/manifests.h"
#include "test/kernel/net_setup.h"
#include "test/kernel/netlink_tap.h"
#include "test/support/ip.h"
#include "test/support/paths.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

const std::string kShop = data_path("reference/shop");
constexpr const char* kNothingRemoved =
    "removed 0 links, 0 local routes, 0 virtual services, 0 jumps, 0 chains, 0 sets, 0 nftables "
    "tables, failures 0";

// The node of the shop, and an endpoint of its Service "api": 10.244.0.5:8000. The link to it has
// no address on the node: node ports would be served there.
struct ShopNode {
  Netns netns;
  Netns pod_netns;
  std::unique_ptr<StreamServer> server;
  Host host{.name = "kp", .netns = &netns, .v4 = ip("10.200.0.2"), .v6 = ip("fd00:200::2")};

  ShopNode() {
    NetSetup node(netns);
    node.veth("pod", pod_netns, "eth0");
    netns.ip(
        "link add vec0 type dummy\nlink set vec0 up\naddr add 10.200.0.2/24 dev vec0\n"
        "addr add fd00:200::2/64 dev vec0 nodad\n"
        "route add 10.244.0.5/32 dev pod src 10.200.0.2\n");
    pod_netns.ip("addr add 10.244.0.5/32 dev eth0\nroute add default dev eth0\n");
    // Legacy tables stay once they were used. There is no mangle, and nobody is to make it.
    netns.inside([] {
      shell(
          "for program in iptables ip6tables; do"
          " printf '*filter\\nCOMMIT\\n*nat\\nCOMMIT\\n' | $program-restore; done");
    });
    server = pod_netns.inside([] {
      return std::move(StreamServer::start("pod", Protocol::tcp, ip("10.244.0.5"), 8000).value());
    });
  }

  // As kube-proxy left it.
  void restore(const std::string& configuration) const {
    const auto folder = data_word("reference/shop/" + configuration + "/kernel");
    netns.inside([&] {
      shell("set -e; cd " + folder +
            "; cat ipset-headers.txt ipset-members.txt | ipset restore;"
            " iptables-restore iptables.txt; ip6tables-restore ip6tables.txt;"
            " { echo link add kube-ipvs0 txqueuelen 0 type dummy;"
            " awk '{ print \"addr add \" $3 \" dev kube-ipvs0\" }' addrs.txt; } | ip -batch -;"
            " ipvsadm -R <ipvs.txt; ipvsadm --set $(sed 's/.*: //' timeouts.txt); echo 1 "
            ">/proc/sys/net/ipv4/vs/conntrack");
    });
  }
};

// The exit status, and what was said.
RunResult clean_up(const Netns& netns, const std::string& config) {
  Daemon daemon(netns, {"--cleanup", "--config", config});
  daemon.start();
  const int status = daemon.wait_for_end();
  return {.status = status, .log = daemon.log()};
}

std::string packets_of(const Netns& netns, const std::string& chain) {
  return netns.inside([&] { return shell("iptables -t nat -nvxL " + chain); });
}

void check_taken_over(const ShopNode& node, NetlinkTap& tap, const std::string& config) {
  LongConnections connection;
  connection.open(node.host, {ip("10.97.134.185"), 8000});
  connection.run();
  REQUIRE(connection.moves_on() == "");
  const auto before = kernel_lines(node.netns);
  const auto counted = packets_of(node.netns, "KUBE-POSTROUTING");
  REQUIRE(counted.find("       1       60 MASQUERADE") != std::string::npos);
  tap.take();

  Daemon daemon(node.netns, {"--manifests", kShop + "/objects", "--config", config,
                             "--kube-proxy-compat", "-v=4"});
  daemon.start();
  const bool synced = daemon.logs("synced: ");
  INFO(daemon.log());
  REQUIRE(synced);
  CHECK(daemon.logs("synced: ipvs 0, links 0, addresses 0, elements 0, sets 0, rule tables 0,", 0));
  CHECK(tap.take() == WriteRequests{});
  CHECK(difference(before, kernel_lines(node.netns)) == "");
  CHECK(packets_of(node.netns, "KUBE-POSTROUTING") == counted);
  CHECK(connection.moves_on() == "");
  CHECK(daemon.terminate() == 0);
  CHECK(connection.moves_on() == "");
}

TEST_CASE("kernel: handover: kube-proxy's ipvs mode is taken over without a write", "[handover]") {
  const std::string name = GENERATE("masqall-mh", "nolocaldetect");
  CAPTURE(name);
  const ShopNode node;
  NetlinkTap tap(node.netns);
  node.restore(name);
  check_taken_over(node, tap, kShop + "/" + name + "/config.yaml");
}

TEST_CASE("kernel: handover: taken over without a write, given back in one run",
          "[handover][item-13]") {
  const std::string name = "clustercidr";
  const auto config = kShop + "/" + name + "/config.yaml";
  const ShopNode node;
  NetlinkTap tap(node.netns);
  const auto before = everything(node.netns);
  node.restore(name);
  const auto saved = kernel_lines(node.netns);
  check_taken_over(node, tap, config);

  LongConnections others;
  others.open(node.host, {ip("10.244.0.5"), 8000});
  others.run();
  REQUIRE(others.moves_on() == "");
  const auto cleaned = clean_up(node.netns, config);
  INFO(cleaned.log);
  CHECK(cleaned.status == 0);
  CHECK(cleaned.log.find(
            "removed 1 links, 0 local routes, 19 virtual services, 18 jumps, 22 chains, 34 sets, 0 "
            "nftables tables, failures 0") != std::string::npos);
  CHECK(difference(before, everything(node.netns)) == "");
  CHECK(others.moves_on() == "");

  tap.take();
  const auto again = clean_up(node.netns, config);
  CHECK(again.status == 0);
  CHECK(again.log.find(kNothingRemoved) != std::string::npos);
  CHECK(tap.take() == WriteRequests{});

  node.restore(name);
  CHECK(difference(saved, kernel_lines(node.netns)) == "");
  CHECK(node.host.open_stream(ip("10.97.134.185"), 8000));
  CHECK(others.moves_on() == "");
}

// What others keep on the node, with a connection through a virtual service of theirs.
void add_foreign_state(const ShopNode& node) {
  node.netns.inside([] {
    shell("set -e; cd " + data_word("reference/iptables_mode") +
          "; iptables-restore -c kubelet.rules;"
          " ip6tables-restore -c kubelet.rules;"
          " ip link add other0 type dummy; ip addr add 192.0.2.200/32 dev other0;"
          " ip link add kube-ipvs type dummy;"
          " printf 'create KUBE-SITE hash:ip\\nadd KUBE-SITE 192.0.2.9\\n"
          "create site-nets hash:net family inet6\\nadd site-nets fd00:9::/64\\n' | ipset restore;"
          " iptables -A SITE -m set --match-set KUBE-SITE src -j DROP;"
          " printf -- '-A -f 7 -s wrr -p 60\\n-a -f 7 -r 10.244.0.5:8000 -m -w 3\\n"
          "-A -t 192.0.2.200:80 -s rr\\n-a -t 192.0.2.200:80 -r 10.244.0.5:8000 -m -w 1\\n' |"
          " ipvsadm -R");
  });
}

TEST_CASE("kernel: handover: cleanup leaves what others have, byte for byte",
          "[handover][item-12]") {
  const ShopNode node;
  add_foreign_state(node);
  LongConnections others;
  others.open(node.host, {ip("192.0.2.200"), 80});
  others.run();
  const auto before = everything(node.netns);
  Manifests manifests;
  manifests.configure(
      "ipvs: {excludeCIDRs: [192.0.2.200/32]}\nnodePortAddresses: [10.200.0.0/24]\n");
  ServiceManifest web{.cluster_ips = {"10.96.0.9", "fd00:96::9"},
                      .endpoints = {{ip("10.244.0.5"), kNodeName}}};
  web.type = "LoadBalancer";
  web.ingress_ips = {"192.0.2.10"};
  web.spec = "loadBalancerSourceRanges: [203.0.113.0/24]";
  web.ports.at(0).node_port = 30080;
  manifests.put(web);
  const auto programmed = run_once(node.netns, manifests);
  INFO(programmed.log);
  REQUIRE(programmed.status == 0);
  REQUIRE(difference(before, everything(node.netns)) != "");

  NetlinkTap tap(node.netns);
  const auto config = manifests.config_file().string();
  const auto cleaned = clean_up(node.netns, config);
  INFO(cleaned.log);
  CHECK(cleaned.status == 0);
  node.netns.ip("link del nlmon0\n");
  CHECK(difference(before, everything(node.netns)) == "");
  CHECK(others.moves_on() == "");
  const auto again = clean_up(node.netns, config);
  CHECK(again.status == 0);
  CHECK(again.log.find(kNothingRemoved) != std::string::npos);

  // A link of our name that is somebody else's stays and is named; a chain of ours as well, which
  // goes on marking.
  node.netns.ip("link add kube-ipvs7 type veth peer name other1\n");
  REQUIRE(run_once(node.netns, manifests).status == 0);
  node.netns.inside([] { shell("iptables -t nat -A KUBE-MARK-DROP -j KUBE-MARK-MASQ"); });
  const auto failing = clean_up(node.netns, config);
  INFO(failing.log);
  CHECK(failing.status == 1);
  for (const auto* text : {"remove link kube-ipvs7", "not a dummy but veth",
                           "remove chain KUBE-MARK-MASQ", "18 jumps, 21 chains", "failures 2"})
    CHECK(failing.log.find(text) != std::string::npos);
  CHECK(others.moves_on() == "");
  node.netns.ip("link del kube-ipvs7\n");
  node.netns.inside([] {
    shell(
        "iptables -t nat -D KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000;"
        " iptables -t nat -F KUBE-MARK-DROP; iptables -t nat -X KUBE-MARK-MASQ;"
        " iptables -t nat -A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000");
  });
  CHECK(difference(before, everything(node.netns)) == "");
}

}  // namespace
}  // namespace ipvsproxier::test
