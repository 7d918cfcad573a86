#!/bin/bash
# The daemon with nf_tables, and what others do to its table, or make under its name. Runs in a guest of
# qemu_run.sh.
#
#   nft_neighbours_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"

# What nft lists, in any order: chains that are made anew come last.
table() { nft -s list table ip kube-ipvs | sort; }
is_as_it_was() { [ "$(table)" = "$(cat "$work/table")" ]; }
mended() { until_true is_as_it_was && all_pass || { table; tail -20 "$work/log"; return 1; }; }

# A table of somebody else, with names that we use, too.
make_theirs() {
  nft -f - <<'END'
table ip kube-ipvs {
  set vips { type inet_service; elements = { 80 }; }
  chain input { type filter hook input priority 0; policy accept; counter; }
}
END
}
theirs_is_untouched() { [ "$(table)" = "$(cat "$work/theirs")" ]; }

leaves_theirs_alone() {
  make_theirs && table >"$work/theirs" || return 1
  start_daemon --packet-filter=nftables --ipvs-sync-period=1h
  until_true grep -qF 'the table ip kube-ipvs of nf_tables is not ours' "$work/log" || return 1
  sleep 1.5
  # One line that says it, and no more than one more because a part of the work was tried again.
  [ "$(grep -cF 'the table ip kube-ipvs of nf_tables is not ours' "$work/log")" -le 2 ] &&
    theirs_is_untouched && ! "$ipvsctl" status --probe=healthz
}
tools_go_on() {
  has "$("$ipvsctl" rules)" 'IPv6 kube-ipvs input' && "$ipvsctl" sets && "$ipvsctl" sets ip6/kube-ipvs/vips &&
    has "$("$ipvsctl" explain 10.0.1.2 10.96.0.1:80 2>&1)" 'there is no route' &&
    has "$("$ipvsctl" service default/web)" 'Cluster IPs' &&
    has "$("$ipvsctl" check --manifests "$work/objects.yaml" 2>&1)" 'table kube-ipvs of nf_tables'
}
is_no_reason_for_nftables() {
  stop_daemon
  nft delete table ip6 kube-ipvs
  has "$("$ipvsctl" plan --manifests "$work/objects.yaml" --hostname-override node 2>&1)" '+ set KUBE-CLUSTER-IP' &&
    "$daemon" --cleanup && theirs_is_untouched
}
takes_over_when_it_goes() {
  start_daemon --packet-filter=nftables --ipvs-sync-period=1h
  until_true grep -qF 'is not ours' "$work/log" || return 1
  nft delete table ip kube-ipvs && until_true settled && all_pass && table >"$work/table"
}

sleeping() { nft add table ip kube-ipvs '{ flags dormant; }' && mended; }
others_chains() {
  nft -f - <<'END' && mended
table ip kube-ipvs {
  set theirs { type ipv4_addr; elements = { 10.0.1.2 }; }
  chain more { ip saddr @theirs drop; }
  chain drop_all { type filter hook input priority -200; policy drop; jump more; }
}
END
}
others_rules() {
  nft insert rule ip kube-ipvs input drop && mended && nft insert rule ip kube-ipvs prerouting counter accept && mended
}
moved_chain() {
  nft -f - <<'END' && mended
flush chain ip kube-ipvs input
delete chain ip kube-ipvs input
table ip kube-ipvs { chain input { type filter hook prerouting priority 17; policy drop; }; }
END
}
other_policy() { nft add chain ip kube-ipvs input '{ policy drop; }' && mended; }
other_type() {
  nft -f - <<'END' && mended
flush table ip kube-ipvs
delete set ip kube-ipvs vips
add set ip kube-ipvs vips { type inet_service; }
add rule ip kube-ipvs input tcp dport @vips accept
END
}
# Services with source ranges have a set each.
ranges_of_other_type() {
  local set=ranges_192.0.2.30_tcp_80
  answers client 192.0.2.30 web || return 1
  nft -f - <<END && mended && answers client 192.0.2.30 web
flush chain ip kube-ipvs $set
delete set ip kube-ipvs $set
add set ip kube-ipvs $set { type ipv4_addr; elements = { 10.0.1.2 }; }
add rule ip kube-ipvs $set ip saddr @$set drop
add rule ip kube-ipvs input ip saddr @$set drop
END
}
flushed() { nft flush ruleset && mended; }

# The chain to which packets of the Service with source ranges go.
own_chain() { nft list map ip kube-ipvs services | grep -o 'svc_[a-z]*_192.0.2.30_tcp_80'; }
own_chain_opened() {
  local own verdict
  own=$(own_chain) && verdict=${own%%_192.*} &&
    nft "flush chain ip kube-ipvs $own; add rule ip kube-ipvs $own jump $verdict" && mended
}
# As daemons left it whose virtual services with source ranges shared the chain of their verdict.
share_chain() {
  local own verdict
  own=$(own_chain) && verdict=${own%%_192.*} && nft -f - <<END
table ip kube-ipvs {
  chain ${verdict}_ranges { jump $verdict; ip daddr . meta l4proto . th dport vmap @restricted; }
}
delete element ip kube-ipvs services { 192.0.2.30 . tcp . 80 }
add element ip kube-ipvs services { 192.0.2.30 . tcp . 80 : goto ${verdict}_ranges }
flush chain ip kube-ipvs $own
delete chain ip kube-ipvs $own
END
}
# The pod is outside the ranges. IPVS remembers a connection of its first packet.
pod_is_let_in() { grep ' 0AF40002 .* C000021E 0050 ' /proc/net/ip_vs_conn; }
try_from_pod() { ip netns exec pod curl -s -m 0.2 http://192.0.2.30/ >/dev/null; }
start_again() { start_daemon --packet-filter=nftables --ipvs-sync-period=1s; }
shared_chains() {
  local trying ended
  stop_daemon
  while sleep 0.01; do try_from_pod; done &
  trying=$!
  share_chain && answers client 192.0.2.30 web && start_again && mended && answers client 192.0.2.30 web
  ended=$?
  kill "$trying"
  ! pod_is_let_in && return "$ended"
}
# Which the case before would have noticed.
own_chain_empty() {
  stop_daemon
  nft flush chain ip kube-ipvs "$(own_chain)" || return 1
  try_from_pod
  pod_is_let_in && start_again && mended
}
has_no_ranges() { ! grep -F 192.0.2.30 <<<"$(table)"; }
ranges_without_a_service() {
  stop_daemon
  nft flush map ip kube-ipvs restricted && make_objects && start_again && until_true has_no_ranges && all_pass ||
    { table; return 1; }
}
deleted() { nft delete table ip kube-ipvs && mended; }

make_cluster
cat >>"$work/objects.yaml" <<'END'
---
apiVersion: v1
kind: Service
metadata: {name: ranged, namespace: default}
spec:
  type: LoadBalancer
  ipFamilies: [IPv4]
  clusterIP: 10.96.0.3
  clusterIPs: [10.96.0.3]
  allocateLoadBalancerNodePorts: false
  loadBalancerSourceRanges: [10.0.1.0/24]
  ports: [{port: 80, protocol: TCP}]
status: {loadBalancer: {ingress: [{ip: 192.0.2.30}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ranged-1, namespace: default, labels: {kubernetes.io/service-name: ranged}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.0.2], nodeName: node, conditions: {ready: true}}
END
check "a table of our name that somebody else made is named and left alone" leaves_theirs_alone
check "ipvsctl goes on beside it" tools_go_on
check "it is no reason to choose nf_tables, and --cleanup leaves it alone" is_no_reason_for_nftables
check "our table takes its place when it goes" takes_over_when_it_goes
check "a dormant table is woken" sleeping
check "chains and sets of others leave our table" others_chains
check "rules of others leave our chains" others_rules
check "a chain of ours that somebody moved is back" moved_chain
check "a policy that somebody changed is back" other_policy
check "a set whose type somebody changed is made anew" other_type
check "a set of source ranges whose type somebody changed is made anew" ranges_of_other_type
check "a chain of a Service with source ranges that somebody opened is as it was" own_chain_opened
check "chains that Services with source ranges shared become their own, and let nobody in" shared_chains
check "an empty chain of a Service with source ranges lets in who is outside, until the next start" own_chain_empty
check "the table is back after nft flush ruleset" flushed
check "the table is back after nft delete table" deleted
check "source ranges go with their Service though somebody flushed their map" ranges_without_a_service
stop_daemon
finish
