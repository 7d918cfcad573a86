# To be sourced by scripts that test neighbours in a guest of qemu_run.sh, whose first arguments are the paths of
# ipvs-proxier and ipvsctl: a small cluster and its traffic.
#
# The node of the test is this network namespace. `pod` is a pod on it (10.244.0.2, fd00:244::2), `client`
# a machine outside (10.0.1.2, fd00:1::2), which reaches the node over 10.0.1.1 and fd00:1::1.
source "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
daemon=$1
ipvsctl=$2
work=$(mktemp -d -p /run)

until_true() {
  local left=150
  until "$@" >/dev/null 2>&1; do
    ((left-- > 0)) || return 1
    sleep 0.1
  done
}

# make_link NETNS OWN_IPV4 OWN_IPV6 THEIR_IPV4 THEIR_IPV6
make_link() {
  ip netns add "$1"
  ip link add "to-$1" type veth peer name eth0 netns "$1"
  ip addr add "$2/24" dev "to-$1"
  ip addr add "$3/64" dev "to-$1" nodad
  ip link set "to-$1" up
  ip -n "$1" addr add "$4/24" dev eth0
  ip -n "$1" addr add "$5/64" dev eth0 nodad
  ip -n "$1" link set lo up
  ip -n "$1" link set eth0 up
  ip -n "$1" route add default via "$2"
  ip -n "$1" -6 route add default via "$3"
}

# serve NETNS PORT TEXT: an HTTP server whose page is the text.
serve() {
  mkdir -p "$work/www-$1-$2"
  echo "$3" >"$work/www-$1-$2/index.html"
  ip netns exec "$1" busybox httpd -p "[::]:$2" -h "$work/www-$1-$2"
}

make_cluster() {
  echo 1 >/proc/sys/net/ipv4/ip_forward
  echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
  make_link pod 10.244.0.1 fd00:244::1 10.244.0.2 fd00:244::2
  make_link client 10.0.1.1 fd00:1::1 10.0.1.2 fd00:1::2
  serve pod 8080 web
  serve pod 9090 hostport
  make_objects
}

# service NAME FAMILY CLUSTER_IP EXTERNAL_IP POD_IP: port 80, node port 30080.
service() {
  cat <<END
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: default}
spec:
  type: NodePort
  ipFamilies: [$2]
  clusterIP: "$3"
  clusterIPs: ["$3"]
  externalIPs: ["$4"]
  ports: [{port: 80, nodePort: 30080, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1-1, namespace: default, labels: {kubernetes.io/service-name: $1}}
addressType: $2
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: ["$5"], nodeName: node, conditions: {ready: true}}
---
END
}
make_objects() {
  {
    service web IPv4 10.96.0.1 192.0.2.10 10.244.0.2
    service web6 IPv6 fd00:96::1 2001:db8::10 fd00:244::2
    cat <<'END'
apiVersion: v1
kind: Node
metadata: {name: node}
status: {addresses: [{type: InternalIP, address: 10.0.1.1}, {type: InternalIP, address: "fd00:1::1"}]}
END
  } >"$work/objects.yaml"
}

start_daemon() {
  "$daemon" --manifests "$work/objects.yaml" --hostname-override node "$@" >"$work/log" 2>&1 &
  echo $! >"$work/pid"
}
# A case runs in a shell of its own, which cannot wait for what another one started.
is_stopped() { ! kill -0 "$(cat "$work/pid")"; }
stop_daemon() {
  kill "$(cat "$work/pid")" 2>/dev/null
  until_true is_stopped
}
# drops COUNT: so many chains of others drop packets of Services, says the daemon.
drops() { curl -s http://127.0.0.1:10249/metrics | grep -qxF "ipvsproxier_firewall_drops $1"; }
settled() { "$ipvsctl" status | grep -q 'settled  *yes'; }

# answers FROM URL TEXT: a client in this network namespace, "node" for the node itself, gets the page.
answers() {
  local page run=(ip netns exec "$1")
  [ "$1" = node ] && run=()
  page=$("${run[@]}" curl -g -s -m 3 "http://$2/")
  [ "$page" = "$3" ] || { echo "$1 gets from $2: \"$page\", not \"$3\""; return 1; }
}

# Every way to the Services, in both families.
all_pass() {
  local address port from
  for address in 10.96.0.1 '[fd00:96::1]' 192.0.2.10 '[2001:db8::10]'; do
    for from in client node pod; do answers $from "$address" web || return 1; done
  done
  for address in 10.0.1.1 '[fd00:1::1]'; do
    answers client "$address:30080" web || return 1
  done
}
