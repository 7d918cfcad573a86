#!/bin/bash
# Host ports as the CNI plugin portmap makes them, equal to ports of Services: who gets the packets. Runs in a
# guest of qemu_run.sh.
#
#   hostport_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"

# Ports 80, 30080 and 9443 of the node lead to the pod's port 9090.
portmap_nft() {
  nft -f - <<'END'
table ip cni_hostport {
  comment "CNI portmap plugin"
  chain hostip_hostports { }
  chain hostports {
    tcp dport 80 dnat to 10.244.0.2:9090 comment "a pod"
    tcp dport 30080 dnat to 10.244.0.2:9090 comment "a pod"
    tcp dport 9443 dnat to 10.244.0.2:9090 comment "a pod"
  }
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    jump hostip_hostports
    jump hostports
  }
  chain output {
    type nat hook output priority -100; policy accept;
    jump hostip_hostports
    fib daddr type local jump hostports
  }
}
table ip6 cni_hostport {
  chain hostip_hostports { }
  chain hostports {
    tcp dport 80 dnat to [fd00:244::2]:9090 comment "a pod"
    tcp dport 30080 dnat to [fd00:244::2]:9090 comment "a pod"
    tcp dport 9443 dnat to [fd00:244::2]:9090 comment "a pod"
  }
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    jump hostip_hostports
    jump hostports
  }
  chain output {
    type nat hook output priority -100; policy accept;
    jump hostip_hostports
    fib daddr type local jump hostports
  }
}
END
}
no_portmap_nft() { nft 'delete table ip cni_hostport; delete table ip6 cni_hostport'; }

each_iptables() { iptables-legacy -w "$@" && ip6tables-legacy -w "$@"; }
portmap_legacy() {
  each_iptables -t nat -N CNI-HOSTPORT-DNAT && each_iptables -t nat -N CNI-DN-pod || return 1
  local chain
  for chain in PREROUTING OUTPUT; do
    each_iptables -t nat -A $chain -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT || return 1
  done
  each_iptables -t nat -A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 80,30080,9443 -j CNI-DN-pod &&
    iptables-legacy -t nat -A CNI-DN-pod -p tcp -j DNAT --to-destination 10.244.0.2:9090 &&
    ip6tables-legacy -t nat -A CNI-DN-pod -p tcp -j DNAT --to-destination '[fd00:244::2]:9090'
}
no_portmap_legacy() {
  local chain
  for chain in PREROUTING OUTPUT; do
    each_iptables -t nat -D $chain -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  done
  for chain in CNI-HOSTPORT-DNAT CNI-DN-pod; do each_iptables -t nat -F $chain; done
  for chain in CNI-HOSTPORT-DNAT CNI-DN-pod; do each_iptables -t nat -X $chain; done
}

# Services' external IPs are addresses of a link of this node.
link_has_external_ips() {
  ip link add other type dummy
  ip addr add 10.7.0.1/32 dev other
  ip addr add fd00:7::1/128 dev other nodad
  ip link set other up
  {
    service link IPv4 10.96.0.7 10.7.0.1 10.244.0.2
    service link6 IPv6 fd00:96::7 fd00:7::1 fd00:244::2
  } | sed 's/30080/30087/' >>"$work/objects.yaml"
}
vips_answer() {
  local address from status=0
  for address in 10.96.0.1 '[fd00:96::1]' 192.0.2.10 '[2001:db8::10]' 10.7.0.1 '[fd00:7::1]'; do
    for from in client node pod; do answers $from "$address" web || status=1; done
  done
  return $status
}
# Addresses of Services are the Services', those of the node are the host port's, node ports as well, as with
# kube-proxy in ipvs mode. Of an external IP on a link of the node the Service has its port alone.
shared_out() {
  local address from status=0
  vips_answer || status=1
  for address in 10.7.0.1 '[fd00:7::1]'; do
    answers client "$address:9443" hostport || status=1
  done
  for address in 10.0.1.1 '[fd00:1::1]'; do
    for from in client node; do
      answers $from "$address" hostport || status=1
      answers $from "$address:30080" hostport || status=1
    done
  done
  return $status
}
# FORM: portmap comes while the daemon runs, and again before a start of the daemon.
comes_later() { "portmap_$1" && shared_out; }
was_first() {
  stop_daemon
  "$daemon" --cleanup >/dev/null 2>&1
  start_daemon "--packet-filter=$2"
  until_true settled && shared_out
  local status=$?
  "no_portmap_$1"
  return $status
}
starts() { stop_daemon; start_daemon "--packet-filter=$1"; until_true settled && until_true vips_answer; }

# From rules of iptables a host port in nf_tables takes packets. It is told when it comes and at a start.
told='warning: nf_tables chain ip cni_hostport prerouting takes what comes for Services (of .*:80) to another destination, and no rule of iptables can keep it'
says_who_takes() {
  until_true grep -q "$told" "$work/log" && until_true drops 4 &&
    answers client 10.96.0.1 hostport &&
    has "$("$ipvsctl" status)" "problem          nf_tables chain ip cni_hostport prerouting takes" &&
    has "$("$ipvsctl" check --manifests "$work/objects.yaml" 2>&1)" 'nf_tables chain ip cni_hostport prerouting takes' &&
    sleep 1.5 && [ "$(grep -c "$told" "$work/log")" = 1 ]
}
nft_is_told() {
  vips_answer && portmap_nft && says_who_takes && no_portmap_nft && until_true vips_answer && until_true drops 0 &&
    grep -F 'no longer so: nf_tables chain ip cni_hostport prerouting takes' "$work/log"
}
nft_is_told_at_start() {
  stop_daemon
  portmap_nft
  start_daemon --packet-filter=iptables
  says_who_takes
}
other_filter_helps() {
  starts nftables && shared_out
  local status=$?
  no_portmap_nft
  return $status
}

make_cluster
link_has_external_ips
start_daemon --packet-filter=nftables
check "nf_tables: Services answer" until_true vips_answer
for form in nft legacy; do
  check "nf_tables: portmap in $form form comes later" comes_later $form
  check "nf_tables: portmap in $form form was there first" was_first $form nftables
done
check "iptables: Services answer" starts iptables
check "iptables: portmap in legacy form comes later" comes_later legacy
check "iptables: portmap in legacy form was there first" was_first legacy iptables
check "iptables: portmap in nft form is told when it comes" nft_is_told
check "iptables: portmap in nft form is told at a start" nft_is_told_at_start
check "and nf_tables for a packet filter helps" other_filter_helps
stop_daemon
finish
