// `ipvsctl explain` against packets among the rules that kubelet, CNI plugins, docker, Calico and
// firewalld write.

#include <catch2/catch.hpp>

#include "test/kernel/explain_prober.h"
#include "test/kernel/traffic.h"
#include "test/support/require.h"

namespace ipvsproxier::test {
namespace {

using netlink::Protocol;

// A virtual service 192.0.2.50:80 to local-1 and rules of others.
class ForeignBed {
 public:
  ForeignBed() : cluster({.local_pods = 3, .remote_pods = 1}), prober_(cluster) {
    run(R"(
      ip link add vips type dummy && ip addr add 192.0.2.50/32 dev vips
      ipvsadm-restore <<'END'
-A -t 192.0.2.50:80 -s rr
-a -t 192.0.2.50:80 -r 10.244.0.11:8080 -m
-A -u 192.0.2.50:80 -s rr
-a -u 192.0.2.50:80 -r 10.244.0.11:8080 -m
END)");
  }

  void run(const std::string& commands) const {
    cluster.netns().inside([&] { shell(commands); });
  }
  // As iptables-save prints them; what is there stays.
  void add(const std::string& rules) const {
    run("iptables-restore --noflush <<'END'\n" + rules + "END\n");
  }
  Outcome ask(const Host& from, const std::string& to, std::uint16_t port,
              Protocol protocol = Protocol::tcp) {
    return ask(Sender{.host = &from, .on_node = from.netns == &cluster.netns()}, to, port,
               protocol);
  }
  Outcome ask(const Sender& sender, const std::string& to, std::uint16_t port,
              Protocol protocol = Protocol::tcp) {
    return prober_.check({.sender = sender,
                          .protocol = protocol,
                          .destination = ip(to),
                          .port = port,
                          .facet = "foreign"});
  }
  Outcome ask_as(const std::string& source, const std::string& to, std::uint16_t port) {
    return ask(Sender{.host = &cluster.node(), .on_node = true, .source = ip(source)}, to, port);
  }

  Cluster cluster;

 private:
  Prober prober_;
};

constexpr const char* kKubelet = R"(*filter
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
)";

TEST_CASE("kernel: explain: kubelet's rule, host ports of portmap, flannel") {
  ForeignBed bed;
  const auto& client = bed.cluster.client();
  bed.add(kKubelet);
  CHECK(bed.ask(client, "192.0.2.50", 80) == "10.244.0.11:8080 sees 203.0.113.7");
  CHECK(bed.ask_as("10.200.0.2", "127.0.0.1", 81) == "lost");
  CHECK(bed.ask_as("127.0.0.1", "127.0.0.1", 81) == "refused: TCP reset");
  bed.add(R"(*nat
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
:CNI-DN-1 - [0:0]
:FLANNEL-POSTRTG - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -p tcp -m tcp -d 127.0.0.1 --dport 82 -j DNAT --to-destination 127.0.0.1:81
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \"cbr0\"" -m multiport --dports 8088,8090:8099 -j CNI-DN-1
-A CNI-DN-1 -s 10.244.0.0/24 -p tcp -m tcp --dport 8088 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-1 -s 127.0.0.1/32 -p tcp -m tcp --dport 8088 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-1 -p tcp -m tcp --dport 8088 -j DNAT --to-destination 10.244.0.12:8080
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/24 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/24 -m comment --comment "flanneld masq" -j RETURN
-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -m comment --comment "flanneld masq" -j MASQUERADE --random-fully
COMMIT
)");
  CHECK(bed.ask(client, "10.200.0.2", 8088) == "leaves by cni0: 10.244.0.12:8080 sees 203.0.113.7");
  CHECK(bed.ask(bed.cluster.local(2), "10.200.0.2", 8088) ==
        "leaves by cni0: 10.244.0.12:8080 sees 10.244.0.1");
  CHECK(bed.ask(bed.cluster.node(), "10.200.0.2", 8088) ==
        "leaves by cni0: 10.244.0.12:8080 sees 10.200.0.2");
  CHECK(bed.ask(client, "10.200.0.2", 8091) == "refused: TCP reset");
  // Translated, it is none of those that kubelet keeps out.
  CHECK(bed.ask_as("10.200.0.2", "127.0.0.1", 82) == "refused: TCP reset");
  CHECK(bed.ask(bed.cluster.local(3), "203.0.113.7", 8080).starts_with("leaves by eth0: "));
}

TEST_CASE("kernel: explain: docker beside a policy that drops") {
  ForeignBed bed;
  const auto& client = bed.cluster.client();
  bed.add(R"(*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 10.244.0.0/24 ! -o cni0 -j MASQUERADE
-A DOCKER -i cni0 -j RETURN
-A DOCKER ! -i cni0 -p tcp -m tcp --dport 8443 -j DNAT --to-destination 10.244.0.13:8080
COMMIT
*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:DOCKER-STAGE-1 - [0:0]
:DOCKER-STAGE-2 - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-STAGE-1
-A FORWARD -o cni0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o cni0 -j DOCKER
-A FORWARD -i cni0 ! -o cni0 -j ACCEPT
-A FORWARD -s 10.244.0.0/24 -m conntrack --ctstate NEW,RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-USER -j RETURN
-A DOCKER-STAGE-1 -i cni0 ! -o cni0 -j DOCKER-STAGE-2
-A DOCKER-STAGE-2 -o docker1 -j DROP
-A DOCKER -d 10.244.0.13/32 ! -i cni0 -o cni0 -p tcp -m tcp --dport 8080 -j ACCEPT
COMMIT
)");
  CHECK(bed.ask(client, "10.200.0.2", 8443) == "leaves by cni0: 10.244.0.13:8080 sees 203.0.113.7");
  CHECK(bed.ask(bed.cluster.local(1), "10.200.0.2", 8443) == "refused: TCP reset");
  CHECK(bed.ask(bed.cluster.stranger(), "192.0.2.50", 80) == "10.244.0.11:8080 sees 198.51.100.9");
  bed.add(
      "*filter\n-I DOCKER-USER -p tcp -m tcp --dport 8080 --syn -m limit --limit 100/s "
      "-j LOG\n-I DOCKER-USER -p tcp -m tcp ! --syn -j DROP\nCOMMIT\n");
  CHECK(bed.ask(client, "10.200.0.2", 8443) == "leaves by cni0: 10.244.0.13:8080 sees 203.0.113.7");
  bed.add(
      "*filter\n-I DOCKER-USER -m conntrack --ctstate DNAT -j REJECT "
      "--reject-with icmp-admin-prohibited\nCOMMIT\n");
  CHECK(bed.ask(client, "10.200.0.2", 8443) == "refused: ICMP prohibited");
}

TEST_CASE("kernel: explain: Calico and a firewalld") {
  ForeignBed bed;
  const auto& client = bed.cluster.client();
  bed.run("ipset create cali40this-host hash:ip; ipset add cali40this-host 10.200.0.2");
  bed.add(R"(*filter
:cali-INPUT - [0:0]
:cali-forward-check - [0:0]
:cali-set-endpoint-mark - [0:0]
:cali-wl-to-host - [0:0]
:cali-to-host - [0:0]
-A INPUT -m comment --comment "cali:1" -j cali-INPUT
-A cali-INPUT -p udp -m comment --comment "cali:2" -m comment --comment "VXLAN" -m multiport --dports 4789 -m addrtype --dst-type LOCAL -j DROP
-A cali-INPUT -m comment --comment "cali:3" -j cali-forward-check
-A cali-INPUT -m comment --comment "cali:4" -m mark ! --mark 0x0/0xfff00000 -j RETURN
-A cali-INPUT -i cni+ -m comment --comment "cali:5" -g cali-wl-to-host
-A cali-INPUT -m comment --comment "cali:6" -j MARK --set-xmark 0x0/0xf0000
-A cali-INPUT -m comment --comment "cali:7" -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-forward-check -m comment --comment "cali:8" -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN
-A cali-forward-check -p tcp -m comment --comment "cali:9" -m multiport --dports 30000:32767 -m set --match-set cali40this-host dst -g cali-set-endpoint-mark
-A cali-forward-check -m comment --comment "cali:10" -m set ! --match-set cali40this-host dst -j cali-set-endpoint-mark
-A cali-set-endpoint-mark -i eth+ -j MARK --set-xmark 0x200000/0xfff00000
-A cali-wl-to-host -m conntrack --ctstate INVALID -j DROP
-A cali-wl-to-host -p ipencap -j DROP
-A cali-wl-to-host -j DROP
COMMIT
)");
  CHECK(bed.ask(client, "192.0.2.50", 80) == "10.244.0.11:8080 sees 203.0.113.7");
  CHECK(bed.ask(bed.cluster.local(2), "10.200.0.2", 81) == "lost");
  CHECK(bed.ask(client, "10.200.0.2", 81) == "refused: TCP reset");
  CHECK(bed.ask(client, "10.200.0.2", 4789, Protocol::udp) == "lost");

  bed.add(R"(*filter
:INPUT_ZONES - [0:0]
:IN_public - [0:0]
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -j INPUT_ZONES
-A INPUT -m conntrack --ctstate INVALID -j DROP
-A INPUT -j REJECT --reject-with icmp-host-prohibited
-A INPUT_ZONES -i eth0 -g IN_public
-A IN_public -p tcp -m tcp --dport 22 -m conntrack --ctstate NEW,UNTRACKED -j ACCEPT
-A IN_public -p icmp -j ACCEPT
COMMIT
)");
  CHECK(bed.ask(client, "10.200.0.2", 22) == "refused: TCP reset");
  CHECK(bed.ask(client, "10.200.0.2", 81) == "refused: ICMP prohibited");
  CHECK(bed.ask(client, "192.0.2.50", 80) == "refused: ICMP prohibited");
  bed.run(
      "ipset create cali40pools hash:net; ipset add cali40pools 10.244.0.0/16; ipset add "
      "cali40pools 10.244.0.13/32 nomatch");
  bed.add(
      "*nat\n-A POSTROUTING -m set --match-set cali40pools src -m set ! --match-set "
      "cali40pools dst -j MASQUERADE\nCOMMIT\n");
  CHECK(bed.ask(bed.cluster.local(2), "203.0.113.7", 8080) ==
        "leaves by eth0: 203.0.113.7:8080 sees 10.200.0.2");
  CHECK(bed.ask(bed.cluster.local(3), "203.0.113.7", 8080) ==
        "leaves by eth0: 203.0.113.7:8080 sees 10.244.0.13");
  // As NodeLocal DNSCache and its like ask it.
  bed.add(
      "*raw\n-A PREROUTING -d 192.0.2.50/32 -p udp -m udp --dport 80 -j CT --notrack\nCOMMIT\n"
      "*filter\n-I INPUT -m conntrack --ctstate UNTRACKED -j ACCEPT\nCOMMIT\n");
  CHECK(bed.ask(client, "192.0.2.50", 80, Protocol::udp) == "10.244.0.11:8080 sees 203.0.113.7");
}

}  // namespace
}  // namespace ipvsproxier::test
