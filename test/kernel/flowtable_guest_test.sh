#!/bin/bash
# Flowtables of others beside Services, with real packets. Runs in a guest of qemu_run.sh, or of a kernel
# that has nf_tables with flowtables built in.
#
#   flowtable_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL [all]
#
# Without "all" only what a day needs: a flowtable that is there at the start, and one that comes.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"
all=${3:-}
echo=$here/flow_echo.py

# flow_service NAME FAMILY CLUSTER_IP EXTERNAL_IP POD_IP POLICY NODE_PORT NODE
flow_service() {
  cat <<END
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: flow}
spec:
  type: NodePort
  ipFamilies: [$2]
  clusterIP: "$3"
  clusterIPs: ["$3"]
  externalIPs: ["$4"]
  externalTrafficPolicy: $6
  ports:
  - {name: stream, port: 80, nodePort: $7, protocol: TCP}
  - {name: datagrams, port: 53, nodePort: $7, protocol: UDP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1-1, namespace: flow, labels: {kubernetes.io/service-name: $1}}
addressType: $2
ports: [{name: stream, port: 8081, protocol: TCP}, {name: datagrams, port: 8081, protocol: UDP}]
endpoints:
- {addresses: ["$5"], nodeName: $8, conditions: {ready: true}}
---
END
}
make_flow_cluster() {
  make_cluster
  make_link pod2 10.244.3.1 fd00:2443::1 10.244.3.2 fd00:2443::2
  make_link far 10.0.2.1 fd00:2::1 10.0.2.2 fd00:2::2
  # A pod does not forward (Calico's do not), or what the flowtable sends it would come back to IPVS.
  for one in pod pod2 far; do ip netns exec $one sysctl -qw net.ipv4.ip_forward=0; done
  for one in pod far; do ip netns exec $one python3 "$echo" serve 8081 & done
  {
    cat "$work/objects.yaml"
    echo ---
    flow_service cluster IPv4 10.96.0.20 192.0.2.20 10.244.0.2 Cluster 30081 node
    flow_service local IPv4 10.96.0.21 192.0.2.21 10.244.0.2 Local 30082 node
    flow_service far IPv4 10.96.0.22 192.0.2.22 10.0.2.2 Cluster 30083 other
    flow_service cluster6 IPv6 fd00:96::20 2001:db8::20 fd00:244::2 Cluster 30084 node
    flow_service local6 IPv6 fd00:96::21 2001:db8::21 fd00:244::2 Local 30085 node
  } >"$work/flow.yaml"
  mv "$work/flow.yaml" "$work/objects.yaml"
}

# The rows of clients outside and of another pod, over both protocols.
from_client() {
  local address
  for address in 192.0.2.20 192.0.2.21 192.0.2.22 2001:db8::20 2001:db8::21; do
    echo "tcp,$address,80" "udp,$address,53"
  done
  echo tcp,10.0.1.1,30081 udp,10.0.1.1,30081 tcp,fd00:1::1,30084 udp,fd00:1::1,30084
}
from_pod() {
  local address
  for address in 10.96.0.20 10.96.0.22 fd00:96::20; do echo "tcp,$address,80" "udp,$address,53"; done
}
rows_pass() {
  # shellcheck disable=SC2046
  ip netns exec client python3 "$echo" ask 5 $(from_client) && ip netns exec pod2 python3 "$echo" ask 5 $(from_pod)
}
no_row_stalls() { rows_pass || { nft list table ip kube-ipvs; tail -20 "$work/log"; return 1; }; }

# others_flowtable LINK...: as a firewall of others has it.
others_flowtable() {
  local links
  links=$(printf ', %s' "$@")
  nft -f - <<END
table inet nb {
  flowtable f { hook ingress priority 0; devices = { ${links:2} }; }
  chain forward { type filter hook forward priority 0; ct state established,related flow add @f; }
}
END
}
every_link=(to-client to-pod to-pod2 to-far)
without_flowtable() { nft delete table inet nb; }

# In the four chains that the map of virtual services leads to.
has_rules() { [ "$(nft list table "$1" kube-ipvs | grep -c 'ct expectation set')" -eq 4 ]; }
is_guarded() { has_rules ip && has_rules ip6; }
is_unguarded() { ! nft list table ip kube-ipvs | grep -q 'ct expectation' && ! nft list table ip6 kube-ipvs | grep -q 'ct expectation'; }
is_settled() { until_true settled || { tail "$work/log"; return 1; }; }
becomes_unguarded() {
  local left
  for ((left = 0; left < 6; ++left)); do until_true is_unguarded && return; done
  nft list table ip kube-ipvs
  return 1
}

# Without our rules the same connections stall: the test sees what it is about.
stalls_without_guard() {
  local chain
  stop_daemon
  for chain in svc_keep svc_local; do nft flush chain ip kube-ipvs $chain; done
  ! ip netns exec client python3 "$echo" ask 5 tcp,192.0.2.21,80
}

offloads() { conntrack -L -p tcp 2>/dev/null | grep OFFLOAD | grep -q "$1"; }
routed_stays_offloaded() {
  ip netns exec client python3 "$echo" ask 40 tcp,10.244.0.2,8081 &
  until_true offloads 'dst=10.244.0.2 .*dport=8081'
  local seen=$?
  wait $!
  return $seen
}
no_service_is_offloaded() {
  ip netns exec client python3 "$echo" ask 30 tcp,192.0.2.21,80 &
  sleep 1
  offloads 'dst=192.0.2.21'
  local seen=$?
  wait $! && [ $seen -ne 0 ]
}

tools_say_so() {
  local text
  text=$("$ipvsctl" status)
  has "$text" 'nf_tables table inet nb, chain forward adds connections to flowtable f' 'a rule of ours keeps them out' || return 1
  has "$("$daemon" --check --manifests "$work/objects.yaml" --hostname-override node 2>&1)" 'table inet nb, chain forward' || return 1
  has "$("$ipvsctl" explain 10.0.1.2 192.0.2.20:80 2>&1)" 'connections in flowtable inet nb f' 'kept out of it by a rule of ours' || return 1
  has "$("$ipvsctl" rules)" 'ct status & dnat == 0 ct expectation set "unaccelerated"'
}
nothing_differs() { "$ipvsctl" diff && "$ipvsctl" plan --manifests "$work/objects.yaml" --hostname-override node; }

# A client's socket that is there before the flowtable goes on after the guard has come. Over TCP the first
# answer that the flowtable sends untranslated has the client reset the connection, whatever comes later.
older_connections_go_on() {
  local pids=() row status=0
  rm -f "$work/stop"
  for row in udp,192.0.2.21,53 udp,192.0.2.20,53 udp,2001:db8::21,53; do
    ip netns exec client python3 "$echo" ask-on "$work/stop" "$row" &
    pids+=($!)
  done
  sleep 2
  others_flowtable "${every_link[@]}"
  sleep 3
  touch "$work/stop"
  for row in "${pids[@]}"; do wait "$row" || status=1; done
  [ $status -eq 0 ] || { conntrack -L | grep OFFLOAD; tail "$work/log"; }
  return $status
}
comes() { until_true is_guarded && no_row_stalls; }
goes() { without_flowtable && becomes_unguarded && no_row_stalls; }

# It comes and goes many times while clients connect: only connections of the first moment may fail, and
# our table is written few times.
comes_and_goes_under_load() {
  local i before after failed
  rm -f "$work/stop"
  ip netns exec client python3 "$echo" load "$work/stop" 192.0.2.21 80 >"$work/load" &
  local client=$!
  sleep 1
  before=$(grep -c . "$work/log")
  for ((i = 0; i < 40; ++i)); do
    others_flowtable "${every_link[@]}"
    sleep 0.15
    without_flowtable
    sleep 0.1
  done
  others_flowtable "${every_link[@]}"
  sleep 1
  touch "$work/stop"
  wait $client
  after=$(grep -c . "$work/log")
  failed=$(awk '/^failed/ && $2 > 4' "$work/load" | wc -l)
  cat "$work/load"
  echo "lines of log: $((after - before))"
  grep -q 'connections [0-9][0-9]' "$work/load" && [ "$failed" -eq 0 ] && [ $((after - before)) -lt 120 ]
}

outer_links_only() {
  without_flowtable
  others_flowtable to-client to-far && until_true is_guarded && no_row_stalls && without_flowtable &&
    others_flowtable to-pod to-pod2 && no_row_stalls
}

has_table() { nft list table "$1" kube-ipvs-flows | grep -q 'ct state new ct expectation set "unaccelerated"'; }
has_tables() { has_table ip && has_table ip6; }
has_no_table() { ! nft list tables | grep kube-ipvs-flows; }
legacy_guards() {
  modprobe -q ip_tables 2>/dev/null
  start_daemon --packet-filter=iptables
  until_true has_tables && until_true settled && no_row_stalls && nothing_differs &&
    has "$("$ipvsctl" status)" 'nf_tables table inet nb, chain forward' 'a rule of ours keeps them out' &&
    has "$("$ipvsctl" explain 10.0.1.2 192.0.2.20:80 2>&1)" 'kept out of it by a rule of ours'
}
legacy_guard_is_put_back() {
  nft delete table ip kube-ipvs-flows
  until_true has_tables
}
legacy_table_is_removed() {
  local left
  without_flowtable
  for ((left = 0; left < 6; ++left)); do until_true has_no_table && return; done
  nft list tables
  return 1
}
legacy_cleaned_up() {
  others_flowtable "${every_link[@]}"
  until_true has_tables && is_cleaned_up
}
compat_tells() {
  start_daemon --packet-filter=iptables --kube-proxy-compat
  until_true grep -qF 'without --kube-proxy-compat a table in nf_tables has it' "$work/log" && has_no_table &&
    has "$("$ipvsctl" status)" 'nf_tables table inet nb, chain forward' 'ct direction original'
}
is_cleaned_up() {
  stop_daemon
  "$daemon" --cleanup && ! nft list tables | grep kube-ipvs && nft list tables | grep -q 'inet nb'
}

make_flow_cluster
others_flowtable "${every_link[@]}"
start_daemon --packet-filter=nftables
check 'a flowtable of others is there: the daemon starts' is_settled
check 'a flowtable of others is there: no connection of a Service stalls' comes
check 'a routed connection stays in the flowtable' routed_stays_offloaded
check 'a connection of a Service stays out of it' no_service_is_offloaded
check 'status, check, explain and rules say so' tools_say_so
check 'diff and plan: all is as it should be' nothing_differs
check 'without our rules connections stall' stalls_without_guard
start_daemon --packet-filter=nftables
check 'the rules are put back' comes
check 'the flowtable is removed: so are our rules, and the object' goes
check 'the flowtable comes: connections that are there go on' older_connections_go_on
check 'the flowtable comes: no new connection stalls' comes
if [ "$all" = all ]; then
  check 'links of pods only, links of others only' outer_links_only
  without_flowtable
  check 'it is removed again' becomes_unguarded
  check 'it comes and goes under load' comes_and_goes_under_load
  check 'all of ours is cleaned up, and nothing of theirs' is_cleaned_up
  check 'legacy iptables: a table beside it keeps connections out of the flowtable' legacy_guards
  check 'legacy iptables: the table is put back' legacy_guard_is_put_back
  check 'legacy iptables: the table is removed after the flowtable' legacy_table_is_removed
  check 'legacy iptables: the table is cleaned up' legacy_cleaned_up
  check 'legacy iptables: with --kube-proxy-compat it is told' compat_tells
fi
finish
