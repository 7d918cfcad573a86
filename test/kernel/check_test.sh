#!/bin/bash
# What `ipvs-proxier --check` says of a node beside what a start of the daemon then does there: with
# everything, and with one module of the kernel after the other taken away. Runs in a guest without
# modules, to which it gives those of the guest's kernel but for the one; between the cases all are
# unloaded again.
#
#   check_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
daemon=$1
ctl=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Links to all files of the guest's modules; depmod's files are among them.
folder=$work/modules
mkdir "$folder" && cp -rs /usr/lib/uml/modules/. "$folder" && mount --bind "$folder" /lib/modules ||
  exit 1

service() {
  printf '%s\n' '---' 'apiVersion: v1' 'kind: Service' "metadata: {name: $1, namespace: default}" \
    "spec: {clusterIP: '$2', clusterIPs: ['$2'], ports: [{port: 80, protocol: $5}]${6:-}}" \
    '---' 'apiVersion: discovery.k8s.io/v1' 'kind: EndpointSlice' \
    "metadata: {name: $1-1, namespace: default, labels: {kubernetes.io/service-name: $1}}" \
    "addressType: $3" "ports: [{port: 8080, protocol: $5}]" \
    "endpoints: [{addresses: ['$4'], nodeName: n1, conditions: {ready: true}}]"
}
mkdir "$work/in" "$work/external" "$work/ranges"
{
  service four 10.96.0.1 IPv4 10.0.0.7 TCP
  service six fd00:96::1 IPv6 fd00:10::7 TCP
  service stream 10.96.0.2 IPv4 10.0.0.7 SCTP
} >"$work/in/all.yaml"
cp "$work/in/all.yaml" "$work/external/"
cp "$work/in/all.yaml" "$work/ranges/"
service outside 10.96.0.3 IPv4 10.0.0.7 TCP ', externalIPs: [192.0.2.3]' >"$work/external/more.yaml"
service ranges 10.96.0.4 IPv4 10.0.0.7 TCP \
  ', type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]}
status: {loadBalancer: {ingress: [{ip: 192.0.2.4}]}' >"$work/ranges/more.yaml"
configuration() {
  printf '%s\n' 'apiVersion: kubeproxy.config.k8s.io/v1alpha1' 'kind: KubeProxyConfiguration' \
    'mode: ipvs' 'hostnameOverride: n1' 'conntrack: {maxPerCore: 0}' 'nodePortAddresses: [primary]' \
    "ipvs: {scheduler: ${1:-rr}}" >"$work/config.yaml"
}

# unload MODULE: with what uses it. A network namespace that is going holds modules for moments.
unload() {
  local holder
  for _ in $(seq 500); do
    [ -d "/sys/module/$1" ] || return 0
    for holder in "/sys/module/$1/holders"/*; do
      [ ! -e "$holder" ] || unload "${holder##*/}" || return 1
    done
    rmmod "$1" 2>"$work/rmmod" || sleep 0.02
  done
  cat "$work/rmmod" /proc/modules
  return 1
}

# All but IPv6, which cannot be unloaded, and what that needs.
unload_all() {
  local name
  for name in x_tables ip_vs nf_conntrack ip_set nfnetlink dummy sctp; do
    unload $name || return 1
  done
}

# What the check says, then what the daemon does, in a network namespace of their own.
# try [FLAG...]: with $objects, a folder.
try() {
  unshare -n bash -c '
    work=$1 objects=$2 daemon=$3
    shift 3
    ip link set lo up
    ip link set lo arp on
    ip addr add 10.0.0.1/24 dev lo
    [ -z "${without_ipv6:-}" ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
    sort /proc/modules >"$work/before"
    "$daemon" --check --config "$work/config.yaml" --manifests "$objects" "$@" >"$work/text"
    echo $? >"$work/predicted"
    sort /proc/modules >"$work/after"
    "$daemon" --once --config "$work/config.yaml" --manifests "$objects" "$@" >"$work/log" 2>&1
    echo $? >"$work/status"
    ipvsadm-save -n >"$work/ipvs" 2>/dev/null
    ipset save >"$work/sets" 2>/dev/null
    { ip -o addr show kube-ipvs0; ip route show table local; ip -6 route show table local; } \
      >"$work/addresses" 2>/dev/null
    iptables-save -t nat >"$work/rules" 2>/dev/null
    ip6tables-save -t nat >>"$work/rules" 2>/dev/null
    true' \
    - "$work" "$objects" "$daemon" "$@"
}

show() {
  cat "$work/text" "$work/log" "$work/ipvs"
  return 1
}

# is_served VIP BACKEND SET: packets to it are sent to the backend, and it is reached.
is_served() {
  grep -qF -- "-r $2 " "$work/ipvs" && grep -qF " ${1%:*}" "$work/addresses" &&
    grep -qF "add $3 ${1//[\[\]]/}" "$work/sets" && grep -q -- "--match-set $3 " "$work/rules"
}
four() { is_served "10.96.0.1" 10.0.0.7:8080 KUBE-CLUSTER-IP; }
six() { is_served "fd00:96::1" '[fd00:10::7]:8080' KUBE-6-CLUSTER-IP; }
external() { is_served "192.0.2.3" 10.0.0.7:8080 KUBE-EXTERNAL-IP; }
ranges() { is_served "192.0.2.4" 10.0.0.7:8080 KUBE-LOAD-BALANCER; }

# predicts STATUS [ABOUT]: the exit status, that a finding of this level is about that, and that nothing
# was loaded to find out.
predicts() {
  local level=(fine limit cannot)
  [ "$(cat "$work/predicted")" = "$1" ] || { cat "$work/predicted"; show; return 1; }
  cmp -s "$work/before" "$work/after" || { diff "$work/before" "$work/after"; return 1; }
  [ "$1" = 0 ] && ! grep -qE '^(limit|cannot)' "$work/text" && return
  grep -qE "^${level[$1]} +${2:-}:" "$work/text" || { echo "no ${level[$1]} about $2"; show; }
}

# without MODULE FUNCTION...: as if the kernel did not have the module; what is then seen.
without() {
  local module=$1 file
  shift
  file=$(find "$folder/" -name "$module.ko")
  [ -n "$file" ] || { echo "there is no module $module to take away"; return 1; }
  mv "$file" "$work/hidden" || return 1
  unload "$module" && "$@"
  local status=$?
  mv "$work/hidden" "$file"
  return $status
}

# Nothing of IPv4 is served, as was said.
stops_all() { objects=$work/in try && predicts 2 "module $1" && { ! four || show; }; }
# IPv4 goes on, IPv6 does not.
stops_six() { objects=$work/in try && predicts 1 "module $1" && { four && ! six || show; }; }
# All is served, and the daemon says what it lacks.
is_missed() {
  objects=$work/in try && predicts 1 "module $1" && { four && six || show; } &&
    { grep -q "$2" "$work/log" || show; }
}
# Nobody needs it.
is_not_missed() { objects=$work/in try && predicts 0 && { four && six || show; } && is_whole; }
is_whole() { [ "$(cat "$work/status")" = 0 ] || show; }

# What is there is served; what needs the module is not.
stops_some() {
  objects=$work/in try && predicts 1 "module $1" && { four && six || show; } &&
    objects=$work/$2 try && predicts 1 "module $1" && { ! "$2" || show; }
}

all_is_there() {
  unload_all && objects=$work/in try && predicts 0 && { four && six || show; } && is_whole &&
    objects=$work/external try && { external || show; } &&
    objects=$work/ranges try && { ranges || show; }
}

in_json() {
  "$daemon" --check -o json --config "$work/config.yaml" --manifests "$work/in" >"$work/json" &&
    python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
sys.exit(found["status"] != 0 or found["verdict"] != "fine" or not found["findings"])' "$work/json"
}

other_scheduler() {
  configuration mh
  "$@"
  local status=$?
  configuration
  return $status
}

disabled_ipv6() {
  objects=$work/in without_ipv6=yes try && predicts 1 IPv6 &&
    { four && ! six || show; }
}

no_capability() {
  unshare -n setpriv --inh-caps=-net_raw --bounding-set=-net_raw "$daemon" --check \
    --config "$work/config.yaml" --manifests "$work/in" >"$work/text"
  [ $? = 2 ] && grep -q 'lacks CAP_NET_RAW:' "$work/text" || { cat "$work/text"; return 1; }
}

# A daemon's own port and virtual services are not in its way; those of others are.
own_ports() {
  local status=0
  "$daemon" --config "$work/config.yaml" --manifests "$work/in" >"$work/log" 2>&1 &
  local pid=$!
  for _ in $(seq 300); do
    curl -sf http://127.0.0.1:10256/healthz >/dev/null && break
    sleep 0.1
  done
  "$ctl" check >"$work/text" || status=1
  grep -q 'the running daemon' "$work/text" || status=1
  kill "$pid"
  wait "$pid"
  "$ctl" check --config "$work/config.yaml" --manifests "$work/in" >"$work/other"
  [ $? = 0 ] || status=1
  grep -q '^note *IPVS: the kernel has 3 virtual services' "$work/other" || status=1
  [ $status = 0 ] || cat "$work/text" "$work/other" "$work/log"
  "$daemon" --cleanup --config "$work/config.yaml" >/dev/null 2>&1
  return $status
}

drops() {
  local status
  iptables -P INPUT DROP
  ip6tables -A OUTPUT -j REJECT
  iptables -P FORWARD DROP
  "$daemon" --check --config "$work/config.yaml" --manifests "$work/in" >"$work/text"
  status=$?
  iptables -P INPUT ACCEPT
  iptables -P FORWARD ACCEPT
  ip6tables -F OUTPUT
  [ $status = 1 ] && [ "$(grep -c '^limit' "$work/text")" = 2 ] &&
    grep -q '^limit *iptables: legacy IPv4 table filter: chain INPUT drops what comes for Services by its policy' "$work/text" &&
    grep -q '^limit *iptables: legacy IPv6 table filter: chain OUTPUT drops what IPVS sends' "$work/text" ||
    { cat "$work/text"; return 1; }
}

configuration
# IPv6 cannot be unloaded: it comes first.
check "without ipv6 there is no IPVS" without ipv6 stops_all ip_vs
check "nothing is missing" all_is_there
check "without ip_vs" without ip_vs stops_all ip_vs
check "without the scheduler" without ip_vs_rr stops_all ip_vs_rr
check "without a scheduler that is not wanted" without ip_vs_mh is_not_missed
check "without the scheduler mh" other_scheduler without ip_vs_mh stops_all ip_vs_mh
for module in ip_set ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip ip_set_bitmap_port ip_tables \
  iptable_nat iptable_filter xt_set xt_comment xt_MASQUERADE dummy; do
  check "without $module" without $module stops_all $module
done
for module in ip6_tables ip6table_nat ip6table_filter ip6t_REJECT; do
  check "without $module" without $module stops_six $module
done
check "without nf_conntrack_netlink" without nf_conntrack_netlink is_missed nf_conntrack_netlink \
  'connection tracking is tried again'
check "without xt_physdev" without xt_physdev stops_some xt_physdev external
check "without ip_set_hash_ipportnet" without ip_set_hash_ipportnet stops_some \
  ip_set_hash_ipportnet ranges
check "without xt_ipvs" without xt_ipvs stops_some xt_ipvs ranges
for module in iptable_mangle sctp; do
  check "without $module, which nobody needs" without $module is_not_missed
done
check "the same as JSON" in_json
check "IPv6 is disabled" disabled_ipv6
check "without a capability" no_capability
check "what the running daemon has is its own" own_ports
check "a packet filter that drops" drops
finish
