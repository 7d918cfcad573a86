// ipvsctl rules beside iptables-save, on a node with a daemon that does not repair meanwhile.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/kernel/traffic.h"
#include "test/support/paths.h"
#include "test/support/temp_dir.h"

namespace ipvsproxier::test {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string told_rules(const std::string& words, const std::string& socket = "/run/none") {
  return shell(ipvsctl_word() + " rules " + words + " --control-socket " + socket +
               " 2>&1 || echo status $?");
}

// What iptables-save has of our chains and of the jumps to them.
std::string saved_rules(const std::string& program, const std::string& options) {
  const std::string ours =
      " | grep -E '^([*]|COMMIT|:KUBE-|([[][0-9:]*[]] )?-A (KUBE-|[A-Z]+ .*-j KUBE-))'; ";
  return shell(program + "-save " + options + " -t filter" + ours + program + "-save " + options +
               " -t nat" + ours);
}

// A Service with all that has rules, and somebody else's rules beside ours.
struct RulesWorld {
  RulesWorld() {
    bed.manifests.configure(std::string("detectLocalMode: ClusterCIDR\nclusterCIDR: \"") +
                            kPodRanges + "\"\nipvs: {syncPeriod: 1h}\n");
    bed.manifests.put({.name = "web",
                       .type = "LoadBalancer",
                       .cluster_ips = {"10.96.0.20", "fd00:96::20"},
                       .ports = tcp_and_udp(30080),
                       .endpoints = endpoints_of({&bed.cluster.local(1)}),
                       .spec = "externalIPs: [192.0.2.20, '2001:db8:2::20'], "
                               "loadBalancerSourceRanges: [203.0.113.0/24, '2001:db8:7::/64']",
                       .ingress_ips = {"192.0.2.10", "2001:db8:2::10"}});
    daemon.start();
    REQUIRE(daemon.logs("synced: "));
    in_node(
        "for program in iptables ip6tables; do $program -N OTHER; $program -A OTHER -j ACCEPT;"
        " $program -A INPUT -p tcp --dport 2222 -j OTHER; done");
  }
  std::string in_node(const std::string& command) const {
    return bed.cluster.netns().inside([&] { return shell(command); });
  }
  std::string tell(const std::string& words) const {
    return bed.cluster.netns().inside([&] { return told_rules(words, socket); });
  }
  std::vector<std::string> flags() const {
    auto flags = bed.manifests.flags();
    flags.push_back("--control-socket=" + socket);
    return flags;
  }

  TempDir dir;
  const std::string socket = (dir.path() / "control.sock").string();
  TrafficBed bed;
  Daemon daemon{bed.cluster.netns(), flags()};
};

TEST_CASE("kernel: ipvsctl rules -o save prints the lines of iptables-save") {
  RulesWorld world;
  world.in_node("iptables -t nat -I KUBE-SERVICES 2 -s 10.9.0.0/16 -j RETURN");
  world.bed.cluster.netns().inside([] {
    for (const std::string family : {"4", "6"}) {
      const std::string program = family == "4" ? "iptables" : "ip6tables";
      const auto expected = saved_rules(program, "");
      CHECK(has(expected, "-A KUBE-SERVICES "));
      CHECK(has(expected, "-A PREROUTING "));
      CHECK_FALSE(has(expected, "OTHER"));
      CHECK(told_rules("-o save -" + family) == expected);
      CHECK(told_rules("-o save --table nat -" + family) == expected.substr(expected.find("*nat")));
    }
  });
  const auto text = world.tell("");
  INFO(text);
  CHECK_FALSE(has(text, "OTHER"));
  CHECK(has(text, "-A KUBE-SERVICES -s 10.9.0.0/16 -j RETURN  # NOT OURS\n"));
  CHECK(text.find("NOT OURS") == text.rfind("NOT OURS"));
  CHECK(has(text, "  # KUBE-CLUSTER-IP: 2 elements\n"));
  CHECK(text.starts_with("IPv4 nat PREROUTING, policy ACCEPT\n"));
  CHECK(has(world.tell("OTHER -6"), "-A OTHER -j ACCEPT\n"));

  world.daemon.terminate();
  const auto bare = world.tell("");
  INFO(bare);
  CHECK(has(bare, "ipvsctl: rules of others are not marked: no ipvs-proxier answers on "));
  CHECK(has(bare, "-A KUBE-SERVICES -s 10.9.0.0/16 -j RETURN\n"));
  CHECK_FALSE(has(bare, "NOT OURS"));
  CHECK_FALSE(has(bare, "status"));
}

TEST_CASE("kernel: ipvsctl rules has the counters of iptables-save after real traffic") {
  const RulesWorld world;
  for (const auto* address : {"192.0.2.20", "2001:db8:2::20"})
    for (int i = 0; i < 3; ++i)
      CHECK(answer(world.bed.cluster.client(), netlink::Protocol::tcp, address, 80)
                .starts_with("local-1"));
  world.bed.cluster.netns().inside([&] {
    for (const std::string family : {"4", "6"}) {
      const std::string program = family == "4" ? "iptables" : "ip6tables";
      // Until no other packet came in between.
      std::string before;
      std::string told;
      for (int i = 0; i < 20 && (before.empty() || before != saved_rules(program, "-c")); ++i) {
        before = saved_rules(program, "-c");
        told = told_rules("-o save --counters -" + family);
      }
      CHECK(told == before);
      const auto document =
          nlohmann::json::parse(told_rules("KUBE-MARK-MASQ -o json -" + family, world.socket));
      CHECK(document["chains"][0]["rules"][0]["packets"] == 3);
    }
  });
}

TEST_CASE("kernel: ipvsctl rules marks what is not ours") {
  const RulesWorld world;
  world.in_node(
      "iptables -t nat -F KUBE-MARK-MASQ; ip6tables -A KUBE-FORWARD -p tcp --sport 22 -j DROP;"
      " ip6tables -t nat -A OUTPUT -p tcp -j KUBE-MARK-MASQ");
  const auto ipv4 = world.tell("-4");
  INFO(ipv4);
  CHECK(has(ipv4, "IPv4 nat KUBE-MARK-MASQ\n\n"));
  CHECK_FALSE(has(ipv4, "NOT OURS"));
  const auto ipv6 = world.tell("--ipv6");
  INFO(ipv6);
  CHECK(has(ipv6, "-A KUBE-FORWARD -p tcp -m tcp --sport 22 -j DROP  # NOT OURS\n"));
  CHECK(has(ipv6, "-A OUTPUT -p tcp -j KUBE-MARK-MASQ  # NOT OURS\n"));
  CHECK(has(world.tell("-6 -o save"), "# -A KUBE-FORWARD -p tcp -m tcp --sport 22 -j DROP\n"));
  CHECK(has(world.tell("KUBE-NOWHERE"), "there is no chain of the name KUBE-NOWHERE"));
  CHECK(world.tell("KUBE-NOWHERE").ends_with("status 1\n"));
}

TEST_CASE("kernel: ipvsctl rules makes no table, and names the capability that it needs") {
  FreshNetns netns;
  CHECK(told_rules("-4") ==
        "IPv4 nat: nothing of ours\nIPv4 filter: nothing of ours\n"
        "IPv4 kube-ipvs: nothing of ours\n");
  CHECK(shell("cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null || :").empty());
  shell("iptables -L; iptables -t nat -L");
  for (const std::string less : {"--bounding-set -net_admin --inh-caps -net_admin ",
                                 "--bounding-set=-all --inh-caps=-all --reuid=65534 "
                                 "--clear-groups "}) {
    const auto text = shell("setpriv " + less + ipvsctl_word() + " rules 2>&1 || echo status $?");
    INFO(text);
    CHECK(has(text, "CAP_NET_ADMIN"));
    CHECK(text.ends_with("status 1\n"));
  }
}

}  // namespace
}  // namespace ipvsproxier::test
