#!/bin/bash
# Host ports as the CNI plugin portmap makes them, equal to ports of Services: who gets the packets. Runs in a
# guest of qemu_run.sh.
#
#   hostport_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
source "$here/neighbours.sh"
daemon=$1
ipvsctl=$2

# Ports 80 and 30080 of the node lead to the pod's port 9090.
portmap_nft() {
  nft -f - <<'END'
table ip cni_hostport {
  comment "CNI portmap plugin"
  chain hostip_hostports { }
  chain hostports {
    tcp dport 80 dnat to 10.244.0.2:9090 comment "a pod"
    tcp dport 30080 dnat to 10.244.0.2:9090 comment "a pod"
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

each_iptables() { iptables -w "$@" && ip6tables -w "$@"; }
portmap_legacy() {
  each_iptables -t nat -N CNI-HOSTPORT-DNAT && each_iptables -t nat -N CNI-DN-pod || return 1
  local chain
  for chain in PREROUTING OUTPUT; do
    each_iptables -t nat -A $chain -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT || return 1
  done
  each_iptables -t nat -A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 80,30080 -j CNI-DN-pod &&
    iptables -t nat -A CNI-DN-pod -p tcp -j DNAT --to-destination 10.244.0.2:9090 &&
    ip6tables -t nat -A CNI-DN-pod -p tcp -j DNAT --to-destination '[fd00:244::2]:9090'
}
no_portmap_legacy() {
  local chain
  for chain in PREROUTING OUTPUT; do
    each_iptables -t nat -D $chain -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  done
  for chain in CNI-HOSTPORT-DNAT CNI-DN-pod; do each_iptables -t nat -F $chain; done
  for chain in CNI-HOSTPORT-DNAT CNI-DN-pod; do each_iptables -t nat -X $chain; done
}

# Addresses of Services are the Services', those of the node are the host port's, node ports as well, as with
# kube-proxy in ipvs mode.
shared_out() {
  local address from status=0
  for address in 10.96.0.1 '[fd00:96::1]' 192.0.2.10 '[2001:db8::10]'; do
    for from in client node pod; do answers $from "$address" web || status=1; done
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
starts() { stop_daemon; start_daemon "--packet-filter=$1"; until_true settled && until_true all_pass; }

make_cluster
start_daemon --packet-filter=nftables
check "nf_tables: Services answer" until_true all_pass
for form in nft legacy; do
  check "nf_tables: portmap in $form form comes later" comes_later $form
  check "nf_tables: portmap in $form form was there first" was_first $form nftables
done
check "iptables: Services answer" starts iptables
check "iptables: portmap in legacy form comes later" comes_later legacy
check "iptables: portmap in legacy form was there first" was_first legacy iptables
stop_daemon
finish
