#!/bin/bash
# Services beside the tables of docker and firewalld, in both orders, and after a restart of theirs. Neither
# program is here: the rules are of our own, with chains, hooks, priorities and decisions as docker 28 writes
# them through iptables-nft, docker 29 to nf_tables, and firewalld 1.3. Runs in a guest of qemu_run.sh.
#
#   docker_firewalld_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"

# Port 80 of the node is published, and led to a container, which here is a pod.
docker_iptables() {
  local policy=$1 tool=iptables-nft
  $tool -N DOCKER-USER && $tool -N DOCKER-FORWARD && $tool -N DOCKER-CT && $tool -N DOCKER-BRIDGE && $tool -N DOCKER &&
    $tool -A FORWARD -j DOCKER-USER && $tool -A FORWARD -j DOCKER-FORWARD && $tool -P FORWARD "$policy" &&
    $tool -A DOCKER-FORWARD -j DOCKER-CT && $tool -A DOCKER-FORWARD -j DOCKER-BRIDGE &&
    $tool -A DOCKER-FORWARD -i docker0 -j ACCEPT && $tool -A DOCKER-BRIDGE -o docker0 -j DOCKER &&
    $tool -A DOCKER-CT -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT &&
    $tool -A DOCKER ! -i docker0 -o docker0 -j DROP &&
    $tool -t nat -N DOCKER && $tool -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER &&
    $tool -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER &&
    $tool -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE &&
    $tool -t nat -A DOCKER ! -i docker0 -p tcp --dport 80 -j DNAT --to-destination 10.244.0.2:9090
}
no_docker_iptables() { nft 'delete table ip filter; delete table ip nat'; }
docker_nft() {
  nft -f - <<'END'
table ip docker-bridges {
  map filter-forward-in-jumps { type ifname : verdict; elements = { "docker0" : jump filter-forward-in__docker0 }; }
  map nat-postrouting-out-jumps { type ifname : verdict; }
  chain filter-forward-in__docker0 { ct state established,related counter accept; iifname "docker0" accept; }
  chain filter-FORWARD { type filter hook forward priority filter; policy accept; iifname vmap @filter-forward-in-jumps; }
  chain nat-prerouting-and-output { iifname != "docker0" tcp dport 80 counter dnat to 10.244.0.2:9090; }
  chain nat-PREROUTING { type nat hook prerouting priority dstnat; policy accept; fib daddr type local counter jump nat-prerouting-and-output; }
  chain nat-OUTPUT { type nat hook output priority -100; policy accept; ip daddr != 127.0.0.0/8 fib daddr type local counter jump nat-prerouting-and-output; }
  chain nat-POSTROUTING { type nat hook postrouting priority srcnat; policy accept; oifname vmap @nat-postrouting-out-jumps; }
  chain raw-PREROUTING { type filter hook prerouting priority raw; policy accept; }
}
END
}
no_docker_nft() { nft delete table ip docker-bridges; }

# firewalld RULES: what the zone of all links accepts.
firewalld() {
  nft -f - <<END
table inet firewalld {
  chain mangle_PREROUTING { type filter hook prerouting priority mangle + 10; policy accept; }
  chain nat_PREROUTING { type nat hook prerouting priority dstnat + 10; policy accept; }
  chain nat_POSTROUTING { type nat hook postrouting priority srcnat + 10; policy accept; }
  chain nat_OUTPUT { type nat hook output priority -90; policy accept; }
  chain filter_PREROUTING {
    type filter hook prerouting priority filter + 10; policy accept;
    icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
    meta nfproto ipv6 fib saddr . mark . iif oif missing drop
  }
  chain filter_IN_public_deny { }
  chain filter_IN_public_allow {
    tcp dport 22 ct state { new, untracked } accept
    $1
  }
  chain filter_IN_public { jump filter_IN_public_deny; jump filter_IN_public_allow; meta l4proto { icmp, ipv6-icmp } accept; }
  chain filter_FWD_public { meta l4proto { icmp, ipv6-icmp } accept; iifname "to-pod" accept; }
  chain filter_INPUT_ZONES { iifname "to-client" goto filter_IN_public; goto filter_IN_public; }
  chain filter_FORWARD_ZONES { goto filter_FWD_public; }
  chain filter_INPUT {
    type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    ip6 daddr { ::/96, ::ffff:0.0.0.0/96, 2002::/24 } reject with icmpv6 addr-unreachable
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_OUTPUT {
    type filter hook output priority filter + 10; policy accept;
    ct state { established, related } accept
    oifname "lo" accept
    ip6 daddr { ::/96, ::ffff:0.0.0.0/96, 2002::/24 } reject with icmpv6 addr-unreachable
  }
}
END
}
no_firewalld() { nft delete table inet firewalld; }
# As rich rules write them.
services='ip daddr { 10.96.0.0/12, 192.0.2.0/24 } accept
ip6 daddr { fd00:96::/112, 2001:db8::/64 } accept
th dport 30000-32767 accept'

# beside NAME ARGUMENT: the tables come while the daemon runs, are made again, and stand before its start.
beside() {
  "$1" "$2" && all_pass && drops 0 && "no_$1" && "$1" "$2" && all_pass || return 1
  stop_daemon
  "$daemon" --cleanup >/dev/null 2>&1
  start_daemon --packet-filter=nftables --ipvs-sync-period=5s
  until_true settled && all_pass && drops 0
  local status=$?
  "no_$1"
  return $status
}
docker_drops() {
  docker_iptables DROP || return 1
  # It accepts established packets to docker's own links, whose names the daemon does not judge.
  until_true grep -F 'nf_tables chain ip filter FORWARD may drop what pods answer' "$work/log" &&
    ! answers client 10.96.0.1 web >/dev/null &&
    nft insert rule ip filter FORWARD ct state established,related accept && all_pass &&
    until_true grep -F 'no longer so: nf_tables chain ip filter FORWARD' "$work/log"
  local status=$?
  no_docker_iptables
  return $status
}
# A reload takes away what was added by hand: it is told again.
firewalld_refuses() {
  firewalld '' || return 1
  until_true drops 1 && ! answers client 10.96.0.1 web >/dev/null &&
    nft -f - <<<"$(sed 's/^/add rule inet firewalld filter_IN_public_allow /' <<<"$services")" && all_pass && until_true drops 0 &&
    no_firewalld && firewalld '' && until_true drops 1
  local status=$?
  no_firewalld
  return $status
}
all_at_once() {
  docker_iptables ACCEPT && docker_nft && firewalld "$services" && all_pass && drops 0 && nft flush ruleset && until_true all_pass
}

make_cluster
ip link add docker0 type bridge
ip addr add 172.17.0.1/16 dev docker0
ip link set docker0 up
start_daemon --packet-filter=nftables --ipvs-sync-period=5s
check "Services answer" until_true all_pass
check "beside docker over iptables-nft, which publishes a Service's port" beside docker_iptables ACCEPT
check "beside docker on nf_tables, which publishes a Service's port" beside docker_nft ''
check "docker's policy in forward is named, and the rule helps" docker_drops
check "beside firewalld that accepts addresses of Services" beside firewalld "$services"
check "firewalld that refuses them is named, also after a reload" firewalld_refuses
check "beside all of them, and after nft flush ruleset" all_at_once
stop_daemon
finish
