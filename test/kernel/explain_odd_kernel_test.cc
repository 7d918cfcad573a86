// `ipvsctl explain` against packets where things are not as the daemon leaves them: virtual
// services of other kinds, host settings that stand in the way.

#include <catch2/catch.hpp>

#include "test/kernel/explain_prober.h"
#include "test/kernel/traffic.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

struct OddBed {
  OddBed() : cluster({.local_pods = 3, .remote_pods = 1}), prober(cluster) {}

  void run(const std::string& commands) const {
    cluster.netns().inside([&] { shell(commands); });
  }
  Outcome ask(const Host& from, const std::string& to, std::uint16_t port,
              Protocol protocol = Protocol::tcp, const std::string& in_link = "") {
    return prober.check({.sender = {.host = &from, .on_node = from.netns == &cluster.netns()},
                         .protocol = protocol,
                         .destination = ip(to),
                         .port = port,
                         .facet = "odd",
                         .in_link = in_link});
  }

  Cluster cluster;
  Prober prober;
};

TEST_CASE("kernel: explain: virtual services that are not ours") {
  OddBed bed;
  const auto& client = bed.cluster.client();
  const auto& stranger = bed.cluster.stranger();
  bed.run(R"(
    ip link add vips type dummy && ip addr add 192.0.2.50/32 dev vips
    ip route add unreachable 172.31.0.0/24
    iptables -t mangle -A PREROUTING -s 198.51.100.9/32 -j MARK --set-mark 0x7
    ipvsadm-restore <<'END'
-A -t 192.0.2.50:21 -s rr
-a -t 192.0.2.50:21 -r 10.244.0.11:8080 -m
-A -u 192.0.2.50:0 -s rr -p 60
-a -u 192.0.2.50:0 -r 10.244.0.11:0 -m
-A -t 192.0.2.50:81 -s rr
-a -t 192.0.2.50:81 -r 10.244.0.11:8080 -m -w 0
-A -t 192.0.2.50:82 -s rr
-A -t 192.0.2.50:83 -s rr
-a -t 192.0.2.50:83 -r 172.31.0.9:80 -m
-A -f 7 -s rr
-a -f 7 -r 10.244.0.12:0 -m
END)");
  const auto vip = "192.0.2.50";
  CHECK(bed.ask(client, vip, 21) == "10.244.0.11:8080 sees 203.0.113.7");
  CHECK(bed.ask(client, vip, 20) == "refused: TCP reset");  // FTP's: passes, nobody listens
  CHECK(bed.ask(client, vip, 5000) == "refused: TCP reset");
  CHECK(bed.ask(client, vip, 80) == "refused: TCP reset");
  CHECK(bed.ask(client, vip, 8080, Protocol::udp) == "10.244.0.11:8080 sees 203.0.113.7");
  CHECK(bed.ask(client, vip, 81) == "refused: ICMP port unreachable");
  CHECK(bed.ask(client, vip, 82) == "refused: ICMP port unreachable");
  CHECK(bed.ask(client, vip, 83) == "refused: ICMP host unreachable");
  CHECK(bed.ask(stranger, vip, 8080) == "10.244.0.12:8080 sees 198.51.100.9");
  CHECK(bed.ask(bed.cluster.node(), vip, 82) == "refused: ICMP port unreachable");
  CHECK(bed.ask(bed.cluster.node(), vip, 82, Protocol::udp) == "10.244.0.11:82 sees 192.0.2.50");

  // Masquerading needs the connections of IPVS to be tracked.
  bed.run("iptables -t nat -A POSTROUTING -j MASQUERADE");
  CHECK(bed.ask(client, vip, 21) == "10.244.0.11:8080 sees 203.0.113.7");
  bed.run("sysctl -qw net.ipv4.vs.conntrack=1");
  CHECK(bed.ask(client, vip, 21) == "10.244.0.11:8080 sees 10.244.0.1");
}

TEST_CASE("kernel: explain: a host that does not forward, filters sources, leaves bridges alone") {
  OddBed bed;
  const auto& client = bed.cluster.client();
  const auto& n2 = bed.prober.n2();
  const auto& pod = bed.cluster.local(1);
  const std::string v4 = "10.244.0.11";
  const std::string v6 = "fd00:244::11";
  CHECK(bed.ask(n2, v4, 8080) == "leaves by cni0: 10.244.0.11:8080 sees 10.200.0.3");
  bed.run("ip route add unreachable 10.244.0.64/26; ip -6 route add unreachable fd00:244::64/128");
  CHECK(bed.ask(n2, "10.244.0.64", 80) == "refused: ICMP host unreachable");
  CHECK(bed.ask(n2, "fd00:244::64", 80) == "refused: ICMP host unreachable");
  bed.run("ip route add blackhole 10.244.0.128/26");
  CHECK(bed.ask(n2, "10.244.0.128", 80) == "lost");

  bed.run("sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0");
  CHECK(bed.ask(n2, v4, 8080) == "lost");
  CHECK(bed.ask(n2, "10.244.0.64", 80) == "lost");
  CHECK(bed.ask(n2, v6, 8080) == "lost");
  bed.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");

  bed.run("sysctl -qw net.bridge.bridge-nf-call-iptables=0; iptables -P FORWARD DROP");
  CHECK(bed.ask(bed.cluster.local(2), v4, 8080) ==
        "leaves by cni0: 10.244.0.11:8080 sees 10.244.0.12");
  bed.run("sysctl -qw net.bridge.bridge-nf-call-iptables=1");
  CHECK(bed.ask(bed.cluster.local(2), v4, 8080) == "lost");
  CHECK(bed.ask(n2, v4, 8080) == "lost");
  CHECK(bed.ask(pod, "10.200.0.2", 81) == "refused: TCP reset");

  bed.run(
      "ip route add 203.0.113.0/24 via 10.244.0.11; "
      "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1");
  CHECK(bed.ask(client, "192.0.2.50", 81, Protocol::tcp, "eth0") == "lost");
}

}  // namespace
}  // namespace ipvsproxier::test
