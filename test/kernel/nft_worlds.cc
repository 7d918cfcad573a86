#include "test/kernel/nft_worlds.h"

namespace ipvsproxier::test {

namespace {

// Behind legacy iptables: which of two chains of one priority is first depends on which was made
// last. An administrator's, with sets, maps and policies that drop.
constexpr const char* kFirewall = R"(
table inet host {
  set friends { type ipv4_addr; flags interval; elements = { 10.244.0.0/24, 203.0.113.0-203.0.113.9 }; }
  set friends6 { type ipv6_addr; elements = { 2001:db8:7::7, fd00:244::11 }; }
  map doors { type inet_proto . inet_service : verdict; elements = { tcp . 22 : jump ssh, tcp . 81 : drop, udp . 80 : accept }; }
  chain ssh { ip saddr 198.51.100.9 drop; accept; }
  chain in {
    type filter hook input priority 5; policy drop;
    ct state vmap { established : accept, related : accept, invalid : drop }
    iif "lo" accept
    meta l4proto { icmp, ipv6-icmp } accept
    meta l4proto . th dport vmap @doors
    ip saddr @friends accept
    ip6 saddr @friends6 accept
    tcp dport { 80, 30000-30005 } ct state new accept
    tcp flags & (fin | syn | rst | ack) != syn counter drop
    ip6 saddr fd00:200::/64 reject with icmpx admin-prohibited
  }
  chain through {
    type filter hook forward priority 5; policy drop;
    ct state established,related accept
    meta l4proto { icmp, ipv6-icmp } accept
    iifname . oifname vmap { "cni0" . "cni0" : accept, "cni0" . "eth0" : goto out, "eth0" . "cni0" : accept }
  }
  chain out { th dport != 81 accept; }
}
)";

constexpr const char* kDocker = R"(
table ip docker-bridges {
  chain prerouting { type nat hook prerouting priority dstnat + 5; fib daddr type local counter jump ports; }
  chain output { type nat hook output priority -95; ip daddr != 127.0.0.0/8 fib daddr type local jump ports; }
  chain ports { iifname != "cni0" tcp dport 8443 dnat to 10.244.0.13:8080; }
  chain postrouting { type nat hook postrouting priority srcnat + 5; oifname != "cni0" ip saddr 10.244.0.0/24 masquerade; }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    oifname "cni0" jump to-bridge
    iifname "cni0" oifname != "cni0" counter accept
  }
  chain to-bridge {
    iifname "cni0" accept
    ip daddr 10.244.0.13 tcp dport 8080 accept
    ip daddr 10.244.0.12 tcp dport != 8080 drop
  }
  chain raw { type filter hook prerouting priority raw; ip daddr 10.244.0.11 iifname "eth0" tcp dport 81 drop; }
}
)";

constexpr const char* kPortmap = R"(
table inet cni_hostport {
  chain hostports { tcp dport 8443 dnat ip to 10.244.0.12:8080; tcp dport 80 dnat ip to 10.244.0.13:8080; tcp dport 8443 dnat ip6 to [fd00:244::12]:8080; }
  chain hostip_hostports { ip daddr 10.200.0.2 udp dport 81 dnat ip to 10.244.0.11:8080; }
  chain prerouting { type nat hook prerouting priority dstnat + 5; fib daddr type local jump hostip_hostports; fib daddr type local jump hostports; }
  chain output { type nat hook output priority -95; fib daddr type local jump hostip_hostports; fib daddr type local jump hostports; }
  chain masquerading { type nat hook postrouting priority srcnat + 5; ip saddr 10.244.0.12 ip daddr 10.244.0.12 masquerade; ip saddr 127.0.0.1 ip daddr 10.244.0.12 masquerade; }
}
)";

constexpr const char* kFirewalld = R"(
table inet firewalld {
  chain mangle_PREROUTING { type filter hook prerouting priority mangle + 10; policy accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; jump zones_mangle; }
  chain zones_mangle { iifname "eth0" goto mangle_public; }
  chain mangle_public { tcp dport 30001 meta mark set meta mark | 0x100; ct mark set meta mark; }
  chain filter_INPUT {
    type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_INPUT_ZONES { iifname "cni0" goto trusted; iifname "eth*" goto public; }
  chain trusted { accept; }
  chain public { ct mark & 0x100 == 0x100 reject with icmpx host-unreachable; tcp dport 22 ct state { new, untracked } accept; th dport { 80, 30000-30008 } accept; meta l4proto { icmp, ipv6-icmp } accept; }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    ip daddr { 240.0.0.0/4, 198.18.0.0/15 } reject with icmp admin-prohibited
    ip6 daddr { ::/96, ::ffff:0.0.0.0/96 } reject with icmpv6 addr-unreachable
  }
  chain nat_POSTROUTING { type nat hook postrouting priority srcnat + 10; policy accept; oifname "eth0" ip saddr 10.244.0.13 masquerade; }
}
)";

constexpr const char* kCalico = R"(
table inet calico {
  set cali40pools { type ipv4_addr; flags interval; elements = { 10.244.0.0/16 }; }
  map cali-fw-dispatch { type ifname : verdict; elements = { "cni0" : goto cali-from-pods }; }
  chain cali-from-pods { ct state invalid drop; meta mark set mark & 0xfffeffff; ip saddr 10.244.0.13 jump cali-policy; meta mark & 0x10000 == 0x10000 return; ip saddr 10.244.0.13 th dport 81 drop; accept; }
  chain cali-policy { th dport { 80, 22 } meta mark set mark | 0x10000; }
  chain filter-INPUT {
    type filter hook input priority -10; policy accept;
    ct state established,related accept
    iifname vmap @cali-fw-dispatch
    fib daddr type local th dport 4789 ip saddr != 10.200.0.3 drop
    iifname "eth*" ip saddr 198.51.100.9 th dport 30004 drop
  }
  chain filter-FORWARD {
    type filter hook forward priority -10; policy accept;
    iifname vmap @cali-fw-dispatch
  }
  chain nat-POSTROUTING { type nat hook postrouting priority 90; ip saddr @cali40pools ip daddr != @cali40pools masquerade fully-random; }
}
)";

// As docker writes it on Debian.
constexpr const char* kDockerRules = R"(*nat
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
-A INPUT -p udp -m multiport --dports 81,30000:30003 -m comment --comment "no" -j DROP
-A INPUT -p tcp -m tcp --dport 81 -m conntrack --ctstate NEW -j REJECT --reject-with icmp-admin-prohibited
-A FORWARD -j DOCKER-USER
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o cni0 -j DOCKER
-A FORWARD -i cni0 ! -o cni0 -j ACCEPT
-A FORWARD -i cni0 -o cni0 -j ACCEPT
-A FORWARD -p icmp -j ACCEPT
-A DOCKER-USER -p tcp -m tcp --dport 8080 --syn -m mark ! --mark 0x1/0x1 -j RETURN
-A DOCKER -d 10.244.0.13/32 ! -i cni0 -o cni0 -p tcp -m tcp --dport 8080 -j ACCEPT
COMMIT
)";

NftWorld world(const std::string& name, const std::string& table, const char* rules) {
  return {name, std::string("nft -f - <<'END'\n") + rules + "END\n", "nft delete table " + table};
}

}  // namespace

std::vector<NftWorld> nft_worlds() {
  return {world("a firewall", "inet host", kFirewall),
          world("docker", "ip docker-bridges", kDocker),
          world("portmap", "inet cni_hostport", kPortmap),
          world("firewalld", "inet firewalld", kFirewalld),
          world("Calico", "inet calico", kCalico),
          {"docker by iptables-nft",
           std::string("iptables-nft-restore <<'END'\n") + kDockerRules + "END\n",
           "nft delete table ip nat; nft delete table ip filter"}};
}

}  // namespace ipvsproxier::test
