#!/bin/bash
# The daemon as kubeadm deploys kube-proxy: what it makes of an API server's shop is what kube-proxy
# made of it; it follows changes, lives through a server that is away, and answers health and
# metrics. Runs in a guest, in its first network namespace.
#
#   api_test.sh PATH_OF_IPVS_PROXIER PATH_OF_TEST_API_SERVER
source "$(dirname "${BASH_SOURCE[0]}")/reference_guest.sh"
source "$here/cases.sh"
reference=$shop/clustercidr
daemon=$1
server=$2
work=$(mktemp -d) || exit 1
daemon_pid=
squatter_pid=
trap 'kill -9 $daemon_pid $api_PID $squatter_pid 2>/dev/null; rm -rf "$work"' EXIT

# api COMMAND: tells the test API server; shows its answer, which must not be an error.
api() {
  local answer
  echo "$1" >&8
  read -r -t 30 answer <&7
  echo "$answer"
  [[ $answer != error* ]]
}

# Not in a subshell, which it would not outlive.
start_server() {
  coproc api { exec "$server" --tls --client-certificate --kubeconfig "$work/kubeconfig" \
    "$shop"/objects/*.json 2>"$work/server.log"; }
  exec 7<&"${api[0]}" 8>&"${api[1]}"
  read -r -t 60 ready <&7
}

is_ready() {
  echo "$ready"
  cat "$work/server.log"
  [[ $ready == "ready https://"* ]]
}

# kubeadm's ConfigMap and command line; the place of the kubeconfig, the pod ranges and a sync period
# that is short enough to wait for are ours.
start_daemon() {
  sed -e "s|/var/lib/kube-proxy/kubeconfig.conf|$work/kubeconfig|" \
    -e 's|^clusterCIDR:.*|clusterCIDR: 10.244.0.0/16,fd00:244::/64|' \
    -e 's|^  syncPeriod: 0s|  syncPeriod: 2s|' \
    "$here/../data/kubeadm_config.yaml" >"$work/config.conf"
  "$daemon" --config="$work/config.conf" --hostname-override=kp --kube-proxy-compat \
    >>"$work/log" 2>&1 &
  daemon_pid=$!
}

logged() { grep -q -- "$1" "$work/log"; }
count_logged() { [ "$(grep -c -- "$1" "$work/log")" -ge "$2" ]; }
has_virtual_service() { ipvsadm-save -n | grep -q -- "-A -t $1 "; }
lacks_virtual_service() { ! has_virtual_service "$1"; }

# http PORT PATH: "STATUS BODY"
http() {
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
  tr -d '\r' <&3 | awk 'NR == 1 { printf "%s ", $2 } body { print } /^$/ { body = 1 }'
  exec 3>&-
}
answers() { http "$1" "$2" | tee /dev/stderr | grep -q -- "$3"; }

# told REASON MEMBER...: whether an Event of this reason, with these members, was accepted.
told() {
  api events | python3 -c '
import json, sys
reason, *members = sys.argv[1:]
events = [e for e in json.load(sys.stdin) if e["reason"] == reason]
print(events)
found = [e for e in events if all(m in json.dumps(e, separators=(",", ":")) for m in members)]
sys.exit(0 if found else 1)' "$@"
}

# All that was asked so far; the answer to a second command ends the answer to the first.
requests() {
  local line
  printf 'requests\nstate\n' >&8
  while read -r -t 60 line <&7 && [[ $line != version\ * ]]; do echo "$line"; done
}
needs_its_role() {
  requests >"$work/requests" && [ -s "$work/requests" ] &&
    "$here/../rbac.py" "$here/../../manifests/base/cluster_role.yaml" <"$work/requests"
}

# Listens on a port of a Service's health server, so that nobody else can.
squat() {
  python3 -c '
import signal, socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("there", flush=True)
signal.pause()' "$1" >"$work/squatter" &
  squatter_pid=$!
}
is_squatted() { grep -q there "$work/squatter"; }

# The daemon where a port of its own is taken and must not be.
ends_for_hard_fail() {
  sed -e 's|^bindAddressHardFail:.*|bindAddressHardFail: true|' "$work/config.conf" \
    >"$work/hard.conf"
  timeout 60 "$daemon" --config="$work/hard.conf" --hostname-override=kp >"$work/hard.log" 2>&1
  local status=$?
  cat "$work/hard.log"
  [ $status = 1 ] && grep -q 'ending, for bindAddressHardFail is set' "$work/hard.log"
}

# An endpoint on another node, as of now.
slice() {
  cat >"$work/slice.json" <<END
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
 "metadata": {"name": "late-1", "namespace": "default",
  "labels": {"kubernetes.io/service-name": "late"},
  "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "$(date -u +%FT%T.%NZ)"}},
 "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
 "endpoints": [{"addresses": ["10.244.9.9"], "conditions": {"ready": true}, "nodeName": "other"}]}
END
  api "put $work/slice.json"
}

service() {
  cat >"$work/service.json" <<END
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "late", "namespace": "default"},
 "spec": {"type": "ClusterIP", "clusterIP": "10.96.77.77", "clusterIPs": ["10.96.77.77"],
 "ipFamilies": ["IPv4"], "internalTrafficPolicy": "Local", "ports": [{"port": $1, "protocol": "TCP", "targetPort": 80}]}}
END
  api "put $work/service.json"
}

reference_guest || exit 1
start_server
check "the server starts" is_ready
squat 32290
check "(a Service's health port is taken)" eventually is_squatted
start_daemon
check "the lists are programmed" eventually logged 'synced: ipvs [1-9]'
check "the kernel holds the reference state" eventually matches_reference
check "healthy" eventually answers 10256 /healthz '^200 .*"healthy":true'
check "alive" answers 10256 /livez '^200 '
check "metrics count" answers 10249 /metrics 'ipvsproxier_netlink_messages_total{kind="ipvs"} [1-9]'
check "the mode" answers 10249 /proxyMode '^200 ipvs$'
check "the cluster is told that it started" eventually told Starting '"type":"Normal"' \
  '"regarding":{"kind":"Node","name":"kp","apiVersion":"v1"}' '"action":"StartKubeProxy"'
check "and which health server cannot listen" eventually told FailedToStartServiceHealthcheck \
  '"type":"Warning"' '"action":"Listen"' '"kind":"Service"' 'healthCheckNodePort 32290'
check "which is a series soon" eventually told FailedToStartServiceHealthcheck '"series":{"count":2'
kill "$squatter_pid"
check "it listens when it can" eventually answers 32290 / 'localEndpoints'
check "looks for stale flows are measured" answers 10249 /metrics \
  'conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"} [1-9]'
check "conntrack is asked" answers 10249 /metrics 'netlink_messages_total{kind="conntrack"} [1-9]'
check "no rules failed" answers 10249 /metrics \
  'iptables_restore_failures_total{ip_family="IPv4"} 0$'
check "a port that is taken ends it where that is asked for" ends_for_hard_fail
check "and the cluster is told" eventually told FailedToStartProxierHealthcheck '"type":"Warning"'
check "the configuration" answers 10249 /configz '"hostnameOverride":"kp"'

check "(a Service is added)" service 8080
check "it is programmed" eventually has_virtual_service 10.96.77.77:8080
check "(it gets an endpoint elsewhere)" slice
check "how long that took is measured" eventually answers 10249 /metrics \
  'network_programming_duration_seconds_count{ip_family="IPv4"} [1-9]'
check "that it has none here is counted" eventually answers 10249 /metrics \
  'no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} [1-9]'
check "(the server goes)" api stop
check "that is noticed" eventually logged 'again in'
check "nothing is removed" has_virtual_service 10.96.77.77:8080
sleep 6 # more than two sync periods
check "it stays healthy" answers 10256 /healthz '^200 '
check "(the Service changes, and the server comes)" service 9090
check "(it resumes)" api resume
check "what changed meanwhile is programmed" eventually has_virtual_service 10.96.77.77:9090
check "what went meanwhile is removed" eventually lacks_virtual_service 10.96.77.77:8080
check "(its history is lost)" api compact
check "(all watches end)" api 'expire Service'
check "(the Service goes)" api 'delete Service default/late'
check "(and its endpoint)" api 'delete EndpointSlice default/late-1'
check "there is a new list" eventually count_logged 'services: [0-9]* listed' 2
check "it is removed" eventually lacks_virtual_service 10.96.77.77:9090
check "the kernel holds the reference state again" eventually matches_reference

# Each kind is asked for when its own pause after the server's absence is over.
check "it asked for all that manifests/base lets it, and nothing else" eventually needs_its_role

kill "$daemon_pid"
wait "$daemon_pid"
check "it ends cleanly" [ $? = 0 ]
check "and leaves the kernel as it is" matches_reference
finish
