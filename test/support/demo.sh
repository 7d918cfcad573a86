#!/bin/bash
# The demo, inside a scratch kernel or a fresh network namespace: lays out two nodes, their pods and
# two clients outside as network namespaces, runs the daemon, and sends traffic. Exit status 1 if a
# request did not go where it must. The daemon follows a copy of examples/shop, of which one
# EndpointSlice is edited while a download runs: as files, or with --api in the test API server.
#
#   demo.sh BUILD_FOLDER [--api]
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1
from=${2:-files}
daemon=$build/cmd/ipvs_proxier/ipvs-proxier
echo_server=$build/test/support/echo_server
api_server=$build/test/support/api_server/test_api_server
servers=()
failures=0

# This namespace is node-1. The router stands for the network between the nodes and the world.
lay_out() {
  ip -batch - <<'END' || return 1
netns add router
netns add node-2
netns add web-1
netns add dns-1
netns add web-3
netns add shell
netns add client
netns add stranger
link add eth0 type veth peer name node-1 netns router
link add cni0 type bridge
link set cni0 up
addr add 10.244.0.1/24 dev cni0
link add veth-web-1 master cni0 type veth peer name eth0 netns web-1
link add veth-dns-1 master cni0 type veth peer name eth0 netns dns-1
link add veth-web-3 master cni0 type veth peer name eth0 netns web-3
link add veth-shell master cni0 type veth peer name eth0 netns shell
link set veth-web-1 up type bridge_slave hairpin on
link set veth-dns-1 up type bridge_slave hairpin on
link set veth-web-3 up type bridge_slave hairpin on
link set veth-shell up type bridge_slave hairpin on
addr add 10.200.0.2/24 dev eth0
link set eth0 up
route add 10.244.1.0/24 via 10.200.0.3
route add default via 10.200.0.1
END
  ip -n router -batch - <<'END' || return 1
link set lo up
link add node-2 type veth peer name eth0 netns node-2
link add client type veth peer name eth0 netns client
link add stranger type veth peer name eth0 netns stranger
link add lan type bridge
link set node-1 up master lan
link set node-2 up master lan
link set lan up
addr add 10.200.0.1/24 dev lan
link set client up
addr add 203.0.113.1/24 dev client
link set stranger up
addr add 198.51.100.1/24 dev stranger
route add 192.0.2.0/24 via 10.200.0.2
END
  ip netns exec router sysctl -q -w net.ipv4.ip_forward=1 &&
    host node-2 10.200.0.3/24 10.200.0.1 "addr add 10.244.1.11/32 dev lo
route add 10.244.0.0/24 via 10.200.0.2" &&
    host web-1 10.244.0.11/24 10.244.0.1 &&
    host dns-1 10.244.0.12/24 10.244.0.1 &&
    host shell 10.244.0.13/24 10.244.0.1 &&
    host web-3 10.244.0.14/24 10.244.0.1 &&
    host client 203.0.113.7/24 203.0.113.1 &&
    host stranger 198.51.100.9/24 198.51.100.1
}

# host NAMESPACE ADDRESS GATEWAY [MORE]
host() {
  printf 'link set lo up\nlink set eth0 up\naddr add %s dev eth0\nroute add default via %s\n%s\n' \
    "$2" "$3" "${4:-}" | ip -n "$1" -batch -
}

# serve|stream NAMESPACE NAME ADDRESS PORT: returns when the server listens.
serve() { start serve "$@"; }
stream() { start stream "$@"; }
start() {
  local ready line
  exec {ready}< <(exec "$echo_server" in "/run/netns/$2" "$1" "$3" "$4" "$5")
  servers+=($!)
  read -r -u "$ready" line && [ "$line" = ready ]
}

# expect WHAT NAMESPACE PROTOCOL ADDRESS PORT ANSWER...: as many requests as there are answers (in
# alphabetical order); "SERVER sees SOURCE" must come once each. "nobody" means that no answer may come.
expect() {
  local what=$1 namespace=$2 protocol=$3 address=$4 port=$5 answers expected mark=ok wait=2000
  shift 5
  [ "$1" = nobody ] && wait=300
  answers=$("$echo_server" in "/run/netns/$namespace" ask "$protocol" "$address" "$port" $wait $# \
    2>/dev/null)
  expected=$(printf '%s\n' "$@")
  if [ "${answers:-nobody}" != "$expected" ]; then
    mark="WRONG, expected: ${expected//$'\n'/, }"
    failures=$((failures + 1))
  fi
  answers=${answers:-nobody}
  printf '  %-37s %-20s %s  %s\n' "$what" "$protocol $address:$port" "${answers//$'\n'/, }" "$mark"
}

stop() {
  [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null
  # A guest takes the namespaces with it; elsewhere their names must go.
  [ "${IPVS_GUEST_KIND:-}" = uml ] ||
    printf 'netns del %s\n' router node-2 web-1 dns-1 web-3 shell client stranger | ip -batch -
}
trap stop EXIT

cat <<END
A cluster of network namespaces on Linux $(uname -r); the proxier runs on node-1.

  client 203.0.113.7 ---+            +-- node-1 10.200.0.2 -- pods web-1, dns-1, shell, web-3
                        +-- router --+                        10.244.0.11 .12 .13 .14
  stranger 198.51.100.9 +            +-- node-2 10.200.0.3 -- pod web-2 10.244.1.11

END
lay_out &&
  serve web-1 web-1 0.0.0.0 8080 &&
  serve dns-1 dns-1 0.0.0.0 5353 &&
  stream web-1 web-1 0.0.0.0 9090 &&
  stream web-3 web-3 0.0.0.0 9090 &&
  serve node-2 web-2 10.244.1.11 8080 || { echo "demo: could not lay out the cluster" >&2; exit 1; }

cd "$root" || exit 1
# A file system of the guest itself: of the host's files it gets no notifications.
work=$(mktemp -d -p /run) && cp -r examples/shop "$work/shop" || exit 1

# Either way the objects are those of $work/shop; `change FILE` makes an edit of one of them known.
follow_files() {
  echo "\$ ipvs-proxier --config examples/kube-proxy.yaml --manifests shop &"
  "$daemon" --config examples/kube-proxy.yaml --manifests "$work/shop" >"$work/log" 2>&1 &
  servers+=($!)
  change() { :; }
}

# api COMMAND: tells the test API server, and waits for its "ok".
api() {
  local answer
  echo "$1" >&"$to_api"
  read -r -t 30 answer <&"$from_api" && [ "$answer" = ok ]
}
follow_api() {
  local ready
  coproc server { exec "$api_server" --tls --client-certificate --kubeconfig "$work/kubeconfig" \
    "$work"/shop/*.yaml 2>"$work/api.log"; }
  servers+=("$server_PID")
  from_api=${server[0]} to_api=${server[1]}
  if ! read -r -t 60 ready <&"$from_api"; then
    cat "$work/api.log" >&2
    exit 1
  fi
  echo "An API server with the objects of examples/shop: ${ready#ready }"
  { cat examples/kube-proxy.yaml; printf 'clientConnection: {kubeconfig: %s/kubeconfig}\n' "$work"; } \
    >"$work/config.yaml"
  echo "\$ (cat examples/kube-proxy.yaml; echo 'clientConnection: {kubeconfig: kubeconfig}') >config.yaml"
  echo "\$ ipvs-proxier --config config.yaml &"
  "$daemon" --config "$work/config.yaml" >"$work/log" 2>&1 &
  servers+=($!)
  change() { api "put $1"; }
}
case $from in
  files) follow_files ;;
  --api) follow_api ;;
  *) echo "demo: unknown option $from" >&2; exit 1 ;;
esac
# logged COUNT TEXT: waits until the daemon has said so that often.
logged() {
  local tenths
  for ((tenths = 0; tenths < 300; ++tenths)); do
    [ "$(grep -c -- "$2" "$work/log")" -ge "$1" ] && return 0
    sleep 0.1
  done
  cat "$work/log"
  echo "demo: the proxier failed" >&2
  exit 1
}
logged 1 synced:
cat "$work/log"
echo
echo "\$ ipvsadm -Ln"
ipvsadm -Ln | tail -n +2

echo
echo "Requests, each answered by a pod with its name and the client address that it sees:"
expect "pod to a cluster IP" shell tcp 10.96.0.20 80 "web-1 sees 10.244.0.13" "web-2 sees 10.244.0.13"
expect "pod to a cluster IP, UDP" shell udp 10.96.0.40 53 "dns-1 sees 10.244.0.13"
expect "pod to itself and others (hairpin)" web-1 tcp 10.96.0.20 80 \
  "web-1 sees 10.244.0.1" "web-2 sees 10.244.0.11"
expect "client to a node port" client tcp 10.200.0.2 30080 "web-1 sees 10.244.0.1" "web-2 sees 10.200.0.2"
expect "client to a load balancer, local" client tcp 192.0.2.10 80 \
  "web-1 sees 203.0.113.7" "web-1 sees 203.0.113.7"
expect "stranger, outside its source ranges" stranger tcp 192.0.2.10 80 nobody
expect "client to a port that is no service" client tcp 192.0.2.10 81 nobody

# table: the virtual service of the downloads as the kernel has it.
table() { ipvsadm -Ln -t 10.96.0.50:80 | sed -n '2,$s/^/    /p'; }
# verify WHAT COMMAND...
verify() {
  local mark=ok
  "${@:2}" >/dev/null || { mark=WRONG; failures=$((failures + 1)); }
  printf '  %-76s %s\n' "$1" "$mark"
}

echo
echo "A download through 10.96.0.50 runs, and the EndpointSlice moves from pod web-1 to pod web-3:"
"$echo_server" in /run/netns/shell download 10.96.0.50 80 600 >"$work/download" 2>&1 &
download=$!
for ((i = 0; i < 50; ++i)); do [ -s "$work/download" ] && break; sleep 0.1; done
verify "the download is connected to web-1" grep -q "connected to web-1" "$work/download"
before=$(grep -c synced: "$work/log")
echo "\$ sed -i 's/10.244.0.11/10.244.0.14/' shop/files.yaml"
sed -i 's/10.244.0.11/10.244.0.14/' "$work/shop/files.yaml"
change "$work/shop/files.yaml" || { echo "demo: the API server refused the change" >&2; exit 1; }
logged $((before + 1)) synced:
table
verify "web-1 drains: weight 0, its connection stays" \
  grep -Eq '10.244.0.11:9090 +Masq +0 +1 ' <(ipvsadm -Ln -t 10.96.0.50:80)
verify "a new download is connected to web-3" grep -q "connected to web-3" \
  <("$echo_server" in /run/netns/shell download 10.96.0.50 80 0)
kill $download
wait $download
verify "the first download went on to its end: $(tail -1 "$work/download")" \
  grep -q "none lost" "$work/download"

echo
if [ $failures -gt 0 ]; then
  cat "$work/log"
  echo "$failures of 11 went wrong."
  exit 1
fi
echo "All requests went where they must."
