#!/bin/bash
# IPVS that cannot be loaded when the daemon starts, and can later: it is opened then. Modules that are
# unloaded while it runs, and loaded again. And what only this kernel can say: which addresses it refuses
# for what they are, and that the node stays healthy meanwhile. Runs in a guest where nothing is loaded.
#
#   late_module_test.sh PATH_OF_IPVS_PROXIER
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
daemon=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/in"
real=$(command -v modprobe)

# What the daemon and the kernel call: loads all but IPVS while there is $work/no_ipvs.
cat >"$work/bin/modprobe" <<END
#!/bin/bash
names=()
for word; do
  case \$word in
    *ip_vs*|*IPVS*) [ ! -e "$work/no_ipvs" ] && names+=("\$word") ;;
    *) names+=("\$word") ;;
  esac
done
exec $real "\${names[@]}"
END
chmod +x "$work/bin/modprobe"
echo "$work/bin/modprobe" >/proc/sys/kernel/modprobe
touch "$work/no_ipvs"
export PATH=$work/bin:$PATH

ip link set lo up
ip link add eth0 type dummy
ip addr add 10.0.0.1/24 dev eth0
ip addr add fd00:10::1/64 dev eth0 nodad
ip link set eth0 up

service() {
  printf '%s\n' '---' 'apiVersion: v1' 'kind: Service' "metadata: {name: $1, namespace: default}" \
    "spec: {clusterIP: $2, clusterIPs: [$2], ports: [{port: 80, protocol: TCP}]${5:-}}" '---' \
    'apiVersion: discovery.k8s.io/v1' 'kind: EndpointSlice' \
    "metadata: {name: $1-1, namespace: default, labels: {kubernetes.io/service-name: $1}}" \
    "addressType: $3" 'ports: [{port: 8080, protocol: TCP}]' 'endpoints:'
  local address
  for address in $4; do printf '%s\n' "- {addresses: ['$address'], conditions: {ready: true}}"; done
}
{
  service good 10.96.0.1 IPv4 10.0.0.7
  service group 10.96.0.2 IPv4 '10.0.0.7 239.1.1.1'
  service broadcast 10.96.0.3 IPv4 '10.0.0.7 10.0.0.255'
  service good6 "'fd00:96::1'" IPv6 fd00:10::7
  service group6 "'fd00:96::2'" IPv6 'fd00:10::7 ff0e::1'
  service bound6 "'fd00:96::3'" IPv6 fd00:10::7 ", externalIPs: ['ff0e::1']"
} >"$work/in/all.yaml"
printf '%s\n' 'apiVersion: kubeproxy.config.k8s.io/v1alpha1' 'kind: KubeProxyConfiguration' \
  'mode: ipvs' 'ipvs: {syncPeriod: 2s}' >"$work/config.yaml"

says() {
  for _ in $(seq 300); do
    grep -qF -- "$1" "$work/log" && return
    sleep 0.1
  done
  cat "$work/log"
  return 1
}

health_is() { [ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:10256/healthz)" = "$1" ]; }

turns() {
  for _ in $(seq 300); do
    health_is "$1" && return
    sleep 0.1
  done
  cat "$work/log"
  return 1
}

# What is good is served, in both families.
is_served() {
  local state
  state=$(ipvsadm-save -n)
  for line in '-a -t 10.96.0.1:80 -r 10.0.0.7:8080' '-a -t 10.96.0.2:80 -r 10.0.0.7:8080' \
    '-a -t [fd00:96::1]:80 -r [fd00:10::7]:8080' '-a -t [fd00:96::3]:80 -r [fd00:10::7]:8080'; do
    grep -qF -- "$line" <<<"$state" || { echo "no $line"; echo "$state"; return 1; }
  done
}

# Each refusal is named once.
is_named_once() {
  local what
  for what in 'Service default/group: add real server 239.1.1.1:8080' \
    'Service default/broadcast: add real server 10.0.0.255:8080' \
    'Service default/group6: add real server [ff0e::1]:8080' \
    'Service default/bound6: add address ff0e::1/128'; do
    [ "$(grep -cF -- "$what" "$work/log")" = 1 ] || { echo "not once: $what"; cat "$work/log"; return 1; }
  done
}

# Longer than twice the sync period, within which the node would turn red.
stays_healthy() {
  for _ in $(seq 80); do
    health_is 200 || { cat "$work/log"; return 1; }
    sleep 0.1
  done
}

# All of IPVS, with what needs it.
unload_ipvs() {
  for _ in $(seq 300); do
    # The daemon puts back what is missing; rules and its own requests hold modules for moments.
    ipvsadm -C
    rmmod xt_ipvs $(lsmod | sed -n 's/^\(ip_vs_[a-z]*\) .*/\1/p') ip_vs 2>"$work/rmmod"
    [ ! -e /proc/net/ip_vs ] && return
    sleep 0.1
  done
  cat "$work/rmmod"
  lsmod
  return 1
}

# All of ipset, with the rules that name sets. The daemon stands still meanwhile: on a slow machine it
# puts back what is missing faster than these commands remove it.
unload_sets() {
  kill -STOP "$pid"
  remove_sets
  local status=$?
  kill -CONT "$pid"
  return $status
}

remove_sets() {
  for _ in $(seq 100); do
    for command in iptables ip6tables; do
      for table in nat filter; do $command -t $table -F && $command -t $table -X; done
    done
    ipset destroy
    rmmod xt_set $(lsmod | sed -n 's/^\(ip_set_[a-z_]*\) .*/\1/p') ip_set 2>"$work/rmmod"
    [ ! -e /sys/module/ip_set ] && return
    sleep 0.1
  done
  cat "$work/rmmod"
  lsmod
  return 1
}

rules_are_back() {
  for _ in $(seq 300); do
    is_served >/dev/null && iptables -t nat -C PREROUTING -m comment --comment \
      'kubernetes service portals' -j KUBE-SERVICES 2>/dev/null &&
      ipset test KUBE-CLUSTER-IP 10.96.0.1,tcp:80 2>/dev/null && return
    sleep 0.1
  done
  cat "$work/log"
  return 1
}

"$daemon" --config "$work/config.yaml" --manifests "$work/in" --hostname-override n1 \
  >"$work/log" 2>&1 &
pid=$!
check 'the daemon says that IPVS is missing' says 'IPVS is tried again until it can be opened'
check 'it is not healthy without' turns 503
rm "$work/no_ipvs"
modprobe ip_vs
check 'IPVS is opened when it is there' says 'IPVS is there now'
check 'the node becomes healthy although some objects are refused' turns 200
check 'all else is served' is_served
check 'what is refused is named, with its Service, once' is_named_once
check 'the node stays healthy' stays_healthy
touch "$work/no_ipvs"
check 'IPVS is unloaded' unload_ipvs
check 'it is not healthy without IPVS' turns 503
rm "$work/no_ipvs"
check 'it is healthy with IPVS again' turns 200
check 'all is served again' is_served
check 'its sysctls are right again' grep -qx 1 /proc/sys/net/ipv4/vs/conntrack
check 'IPVS is unloaded and can be loaded at once' unload_ipvs
check 'IP sets are unloaded, with the rules' unload_sets
check 'all is back' rules_are_back
check 'it is healthy' turns 200
kill "$pid"
wait "$pid"
finish
