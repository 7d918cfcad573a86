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
trap 'kill -9 $daemon_pid $api_PID 2>/dev/null; rm -rf "$work"' EXIT

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

# eventually COMMAND...: true as soon as it is, false after a minute.
eventually() {
  local i
  for ((i = 0; i < 120; i++)); do
    "$@" >"$work/last" 2>&1 && return 0
    sleep 0.5
  done
  cat "$work/last" "$work/log"
  return 1
}

logged() { grep -q -- "$1" "$work/log"; }
count_logged() { [ "$(grep -c -- "$1" "$work/log")" -ge "$2" ]; }
has_virtual_service() { ipvsadm-save -n | grep -q -- "-A -t $1 "; }
lacks_virtual_service() { ! has_virtual_service "$1"; }

matches_reference() {
  rm -rf "$work/dump"
  "$here/kernel_dump.sh" "$work/dump"
  "$here/kernel_compare.sh" "$reference/kernel" "$work/dump"
}

# http PORT PATH: "STATUS BODY"
http() {
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
  tr -d '\r' <&3 | awk 'NR == 1 { printf "%s ", $2 } body { print } /^$/ { body = 1 }'
  exec 3>&-
}
answers() { http "$1" "$2" | tee /dev/stderr | grep -q -- "$3"; }

service() {
  cat >"$work/service.json" <<END
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "late", "namespace": "default"},
 "spec": {"type": "ClusterIP", "clusterIP": "10.96.77.77", "clusterIPs": ["10.96.77.77"],
 "ipFamilies": ["IPv4"], "ports": [{"port": $1, "protocol": "TCP", "targetPort": 80}]}}
END
  api "put $work/service.json"
}

reference_guest || exit 1
start_server
check "the server starts" is_ready
start_daemon
check "the lists are programmed" eventually logged 'synced: ipvs [1-9]'
check "the kernel holds the reference state" eventually matches_reference
check "healthy" eventually answers 10256 /healthz '^200 .*"healthy":true'
check "alive" answers 10256 /livez '^200 '
check "metrics count" answers 10249 /metrics 'ipvsproxier_netlink_messages_total{kind="ipvs"} [1-9]'
check "the mode" answers 10249 /proxyMode '^200 ipvs$'
check "the configuration" answers 10249 /configz '"hostnameOverride":"kp"'

check "(a Service is added)" service 8080
check "it is programmed" eventually has_virtual_service 10.96.77.77:8080
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
check "there is a new list" eventually count_logged 'services: [0-9]* listed' 2
check "it is removed" eventually lacks_virtual_service 10.96.77.77:9090
check "the kernel holds the reference state again" eventually matches_reference

kill "$daemon_pid"
wait "$daemon_pid"
check "it ends cleanly" [ $? = 0 ]
check "and leaves the kernel as it is" matches_reference
finish
