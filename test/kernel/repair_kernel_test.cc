// What others change behind the daemon's back is put right and told.

#include <catch2/catch.hpp>

#include "netlink/sysctl.h"
#include "test/kernel/cluster.h"
#include "test/kernel/daemon.h"
#include "test/kernel/kernel_state.h"
#include "test/kernel/manifests.h"
#include "test/support/paths.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {
namespace {

using netlink::Family;
using netlink::IpAddress;
using netlink::Protocol;

struct Damage {
  const char* command;       // run in the daemon's namespace
  const char* told;          // what the daemon says
  const char* differs = "";  // what `ipvsctl diff` says; "": repaired before one can ask
};

const Damage kDamages[] = {
    {"ipvsadm -D -t 10.96.0.9:80", "repairing: add virtual service 10.96.0.9:80/TCP rr",
     "+ 10.96.0.9:80/TCP rr  # default/web:echo/TCP, cluster IP"},
    {"ipvsadm -D -t [fd00:96::9]:80", "repairing: add virtual service [fd00:96::9]:80/TCP rr",
     "+ [fd00:96::9]:80/TCP rr"},
    {"ipvsadm -C", "repairing: add real server 10.244.0.12:8080",
     "+ 192.0.2.9:90/TCP -> 10.244.0.12:"},
    {"ipvsadm -d -t 10.96.0.9:80 -r 10.244.0.11:8080",
     "repairing: add real server 10.244.0.11:8080", "+ 10.96.0.9:80/TCP -> 10.244.0.11:8080"},
    {"ipvsadm -e -t 10.96.0.9:80 -r 10.244.0.11:8080 -m -w 5",
     "repairing: edit real server 10.244.0.11:8080",
     "~ 10.96.0.9:80/TCP -> 10.244.0.11:8080: weight 5 -> 1"},
    {"ipvsadm -e -t 10.96.0.9:80 -r 10.244.0.11:8080 -m -w 0",
     "repairing: edit real server 10.244.0.11:8080",
     "~ 10.96.0.9:80/TCP -> 10.244.0.11:8080: weight 0 -> 1"},
    {"ipvsadm -E -t 10.96.0.9:80 -s wrr", "repairing: edit virtual service 10.96.0.9:80/TCP rr",
     "~ 10.96.0.9:80/TCP: scheduler wrr -> rr"},
    {"ipvsadm -E -t 10.96.0.9:80 -s rr -p 60",
     "repairing: edit virtual service 10.96.0.9:80/TCP rr",
     "~ 10.96.0.9:80/TCP: flags 1 -> 0, persistence timeout 60 -> 0"},
    {"ipvsadm -a -t 10.96.0.9:80 -r 10.244.7.7:8080 -m",
     "repairing: ", "10.96.0.9:80/TCP -> 10.244.7.7:8080"},
    {"ipvsadm -A -t 10.96.0.9:99", "repairing: delete virtual service 10.96.0.9:99/TCP",
     "- 10.96.0.9:99/TCP"},
    {"ipset del KUBE-CLUSTER-IP 10.96.0.9,tcp:80",
     "repairing: add KUBE-CLUSTER-IP 10.96.0.9,tcp:80", "+ KUBE-CLUSTER-IP 10.96.0.9,tcp:80"},
    {"ipset add KUBE-CLUSTER-IP 10.96.0.99,tcp:80",
     "repairing: remove KUBE-CLUSTER-IP 10.96.0.99,tcp:80", "- KUBE-CLUSTER-IP 10.96.0.99,tcp:80"},
    {"ipset flush KUBE-LOOP-BACK", "repairing: add KUBE-LOOP-BACK 10.244.0.11,tcp:8080,10.244.0.11",
     "+ KUBE-LOOP-BACK 10.244.0.11,tcp:8080,10.244.0.11"},
    {"ipset flush KUBE-6-CLUSTER-IP", "repairing: add KUBE-6-CLUSTER-IP fd00:96::9,tcp:80",
     "+ KUBE-6-CLUSTER-IP fd00:96::9,tcp:80"},
    {"ipset destroy KUBE-NODE-PORT-UDP", "repairing: make set KUBE-NODE-PORT-UDP bitmap:port",
     "+ set KUBE-NODE-PORT-UDP bitmap:port"},
    // Again if the rules were repaired meanwhile.
    {"until iptables -t nat -F KUBE-POSTROUTING && ipset destroy KUBE-LOOP-BACK; do :; done",
     "repairing: make set KUBE-LOOP-BACK hash:ip,port,ip", "+ set KUBE-LOOP-BACK hash:ip,port,ip"},
    {"iptables -t nat -D KUBE-POSTROUTING 1", "repairing: IPv4 table nat: KUBE-POSTROUTING",
     "+ IPv4 nat: -A KUBE-POSTROUTING "},
    {"iptables -t nat -I KUBE-SERVICES -j RETURN", "repairing: IPv4 table nat: KUBE-SERVICES",
     "- IPv4 nat: -A KUBE-SERVICES -j RETURN"},
    {"ip6tables -F KUBE-IPVS-FILTER", "repairing: IPv6 table filter: KUBE-IPVS-FILTER",
     "+ IPv6 filter: -A KUBE-IPVS-FILTER "},
    {"iptables -t nat -D PREROUTING 1",
     "repairing: IPv4 table nat: ", "+ IPv4 nat: -A PREROUTING "},
    {"ip6tables -D INPUT 1", "repairing: IPv6 table filter: ", "+ IPv6 filter: -A INPUT "},
    {"until iptables -F FORWARD && iptables -F KUBE-FORWARD && iptables -X KUBE-FORWARD; do :; "
     "done",
     "repairing: IPv4 table filter: KUBE-FORWARD", "+ IPv4 filter: -A FORWARD "},
    {"ip addr del 10.96.0.9/32 dev kube-ipvs0",
     "others removed address 10.96.0.9 from kube-ipvs0: adding it again"},
    {"ip addr add 10.96.0.99/32 dev kube-ipvs0", "repairing: delete address 10.96.0.99",
     "- address 10.96.0.99 on kube-ipvs0"},
    {"ip link del kube-ipvs0", "others removed link kube-ipvs0: made it again"},
    {"echo 0 >/proc/sys/net/ipv4/vs/conntrack",
     "others changed what this node needs: set sysctl net/ipv4/vs/conntrack from 0 to 1 again",
     "~ set sysctl net/ipv4/vs/conntrack from 0 to 1"},
    {"echo 0 >/proc/sys/net/ipv4/ip_forward",
     "others changed what this node needs: set sysctl net/ipv4/ip_forward from 0 to 1 again",
     "~ set sysctl net/ipv4/ip_forward from 0 to 1"},
};

std::string detection() {
  return std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") + kPodRanges + "\"\n";
}

ServiceManifest web_of(const Cluster& cluster) {
  ServiceManifest web{
      .type = "LoadBalancer",
      .cluster_ips = {"10.96.0.9", "fd00:96::9"},
      .ports = {{.name = "echo", .port = 80, .target = kEchoPort, .node_port = 30080},
                {.name = "stream", .port = 90, .target = kStreamPort}},
      .spec = "loadBalancerSourceRanges: [203.0.113.0/24]",
      .ingress_ips = {"192.0.2.9"}};
  for (int number = 1; number <= 2; ++number)
    for (const Family family : netlink::kFamilies)
      web.endpoints.push_back({cluster.local(number).address(family), kNodeName});
  return web;
}

std::vector<std::string> state_of(const Cluster& cluster) {
  auto lines = kernel_lines(cluster.netns());
  cluster.netns().inside([&] {
    for (const char* key : {"net/ipv4/vs/conntrack", "net/ipv4/ip_forward"})
      lines.push_back(netlink::Sysctl().read(key).value_or("unreadable"));
  });
  return lines;
}

TEST_CASE("kernel: repair: the next reading of the kernel finds what others changed") {
  Cluster cluster({.local_pods = 2, .remote_pods = 0});
  Manifests manifests;
  manifests.configure(detection() + "ipvs: {syncPeriod: 1s}\n");
  manifests.put(web_of(cluster));
  Daemon daemon(cluster.netns(), manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  const auto wanted = state_of(cluster);
  REQUIRE(wanted.size() > 100);
  for (const auto& damage : kDamages) {
    INFO(damage.command);
    daemon.mark();
    cluster.netns().inside([&] { shell(damage.command); });
    CHECK(daemon.logs(damage.told));
    daemon.logs("synced: ");
    std::string differs;
    const bool repaired =
        eventually([&] { return (differs = difference(wanted, state_of(cluster))) == ""; });
    INFO(differs << daemon.log());
    CHECK(repaired);
  }
  // Nothing is repaired that is in order.
  daemon.mark();
  CHECK_FALSE(daemon.logs("repairing", 3000));
  CHECK(cluster.client().ask(Protocol::tcp, *IpAddress::parse("10.96.0.9"), 80));
}

TEST_CASE("kernel: repair: a lost kube-ipvs0 or address is noticed at once") {
  Cluster cluster({.local_pods = 2, .remote_pods = 0});
  Manifests manifests;
  // Longer than any test waits.
  manifests.configure(detection() + "ipvs: {syncPeriod: 10m}\n");
  manifests.put(web_of(cluster));
  Daemon daemon(cluster.netns(), manifests.flags());
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  const auto wanted = state_of(cluster);
  const Damage damages[] = {
      {"ip addr del 10.96.0.9/32 dev kube-ipvs0",
       "others removed address 10.96.0.9 from kube-ipvs0: adding it again"},
      {"ip addr del fd00:96::9/128 dev kube-ipvs0",
       "others removed address fd00:96::9 from kube-ipvs0: adding it again"},
      {"ip addr del 192.0.2.9/32 dev kube-ipvs0",
       "others removed address 192.0.2.9 from kube-ipvs0: adding it again"},
      {"ip link del kube-ipvs0", "others removed link kube-ipvs0: made it again"},
  };
  for (const auto& damage : damages) {
    INFO(damage.command);
    daemon.mark();
    cluster.netns().inside([&] { shell(damage.command); });
    INFO(daemon.log());
    CHECK(daemon.logs(damage.told));
    CHECK(daemon.logs("synced: "));
    CHECK(difference(wanted, state_of(cluster)) == "");
    for (const auto* vip : {"10.96.0.9", "fd00:96::9", "192.0.2.9"})
      CHECK(cluster.client().ask(Protocol::tcp, *IpAddress::parse(vip), 80));
  }
}

std::string ipvsctl(const Cluster& cluster, const std::string& arguments) {
  std::string text;
  cluster.netns().inside(
      [&] { text = shell(ipvsctl_word() + " " + arguments + " 2>&1; echo status $?"); });
  return text;
}

TEST_CASE("kernel: ipvsctl diff and plan tell each damage, and none where there is none") {
  Cluster cluster({.local_pods = 2, .remote_pods = 0});
  Manifests manifests;
  // The daemon repairs nothing meanwhile but addresses and links.
  manifests.configure(detection() + "ipvs: {syncPeriod: 10m}\n");
  manifests.put(web_of(cluster));
  const TempDir dir;
  auto flags = manifests.flags();
  const std::string socket = "--control-socket=" + (dir.path() / "control.sock").string();
  const std::string plan = "plan " + flags[0] + " " + flags[1] + " " + flags[2] + " " + flags[3];
  flags.push_back(socket);
  CHECK(ipvsctl(cluster, "diff " + socket).find("status 2") != std::string::npos);
  CHECK(ipvsctl(cluster, plan).find("+ dummy link kube-ipvs0") != std::string::npos);
  Daemon daemon(cluster.netns(), flags);
  daemon.start();
  REQUIRE(daemon.logs("synced: "));
  const std::string equal = "the kernel is as it should be\nstatus 0\n";
  const auto nothing = [&] { return ipvsctl(cluster, "diff " + socket) == equal; };
  CHECK(ipvsctl(cluster, "diff " + socket) == equal);
  CHECK(ipvsctl(cluster, "status " + socket).find("settled          yes") != std::string::npos);
  std::size_t number = 0;
  for (const auto& damage : kDamages) {
    INFO(damage.command);
    cluster.netns().inside([&] { shell(damage.command); });
    if (*damage.differs == '\0') {
      CHECK(eventually(nothing));
      continue;
    }
    const auto text = ipvsctl(cluster, (number++ % 8 == 0 ? plan : "diff " + socket));
    INFO(text);
    CHECK(text.find(damage.differs) != std::string::npos);
    CHECK(text.find("\nstatus 1\n") != std::string::npos);
    REQUIRE(run_once(cluster.netns(), manifests).status == 0);
  }
  CHECK(ipvsctl(cluster, "diff " + socket) == equal);
}

}  // namespace
}  // namespace ipvsproxier::test
