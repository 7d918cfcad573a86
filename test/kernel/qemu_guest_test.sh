#!/bin/bash
# The daemon under a kernel of Debian: it programs a Service, and traffic passes. Runs in a guest of
# qemu_run.sh.
#
#   qemu_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
daemon=$1
ipvsctl=$2

ip link add eth0 type dummy
ip addr add 10.0.0.1/24 dev eth0
ip link set eth0 up

mkdir -p /run/work/www
echo hello >/run/work/www/index.html
cat >/run/work/objects.yaml <<'END'
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: true}}
END
busybox httpd -p 10.0.0.1:8080 -h /run/work/www

of_debian() { uname -v | grep Debian && [ -d "/lib/modules/$(uname -r)" ]; }
# Of a node on which nothing uses a packet filter.
foretells() {
  local text
  text=$("$ipvsctl" plan --manifests /run/work/objects.yaml --hostname-override node)
  [ $? -eq 1 ] && echo "$text" && grep -F 'ip kube-ipvs services' <<<"$text" && [ -z "$(nft list tables)" ]
}
chooses_nftables() { grep -F 'packet filter: nftables (nf_tables works here)' /run/work/first.log; }
programs() {
  "$daemon" --manifests /run/work/objects.yaml --once --hostname-override node >/run/work/first.log 2>&1 &&
    ipvsadm -Ln | grep -A1 -F 'TCP  10.96.0.1:80 rr' | grep -F '10.0.0.1:8080'
}
answers() { [ "$(curl -s -m 10 http://10.96.0.1/)" = hello ]; }
explains() { "$ipvsctl" explain 10.0.0.1 10.96.0.1:80 | grep -F 10.0.0.1:8080; }
# /tmp is the guest's own, and this clone may be there.
read_only() { ! touch /usr/written-by-a-guest && ! [ -e /usr/written-by-a-guest ]; }

check "the kernel is one of Debian, with its modules" of_debian
check "the host's files cannot be changed" read_only
check "ipvsctl plan tells the packet filter of a node that has none, and makes no table" foretells
check "the daemon programs a Service" programs
check "the daemon takes nf_tables where nothing needs legacy iptables" chooses_nftables
check "its address answers" answers
check "ipvsctl explains it" explains

# Others' edits of our table of nf_tables are repaired when they are told, long before the next reading.
table() { nft -s list table ip kube-ipvs; }
until_true() {
  local left=100
  until "$@" >/dev/null 2>&1; do
    ((left-- > 0)) || return 1
    sleep 0.1
  done
}
is_as_it_was() { [ "$(table)" = "$(cat /run/work/table)" ]; }
starts_with_nftables() {
  "$daemon" --cleanup || return 1
  "$daemon" --manifests /run/work/objects.yaml --hostname-override node --packet-filter=nftables \
    --ipvs-sync-period=1h >/run/work/daemon.log 2>&1 &
  echo $! >/run/work/daemon.pid
  until_true settled && table >/run/work/table && grep -F 10.96.0.1 /run/work/table
}
settled() { "$ipvsctl" status | grep 'settled  *yes'; }
tells_its_filter() {
  "$ipvsctl" status | grep -E 'packet filter +nftables \(--packet-filter\)' &&
    curl -s http://127.0.0.1:10249/metrics | grep -F 'ipvsproxier_packet_filter_info{filter="nftables",reason="--packet-filter"} 1'
}
repairs() {
  "$@" && until_true is_as_it_was && answers
  local status=$?
  cat /run/work/daemon.log
  return $status
}
empty_a_chain() { nft flush chain ip kube-ipvs input; }
take_an_element() { nft delete element ip kube-ipvs vips '{ 10.96.0.1 }'; }
flush_all() { nft flush ruleset; }
# A neighbour with tables of its own costs nothing.
is_left_alone() {
  local before after
  before=$(grep -c . /run/work/daemon.log)
  nft -f - <<<'table ip other { chain c { }; set s { type ipv4_addr; elements = { 10.0.0.1, 10.0.0.2 } } }'
  sleep 0.5
  after=$(grep -c . /run/work/daemon.log)
  [ "$before" = "$after" ]
}
check "the daemon starts with nf_tables" starts_with_nftables
check "status and metrics tell the packet filter and why" tells_its_filter
check "a chain that others empty is filled at once" repairs empty_a_chain
check "an element that others delete is back at once" repairs take_an_element
check "a ruleset that others flush is back at once" repairs flush_all
check "tables of others are none of its business" is_left_alone
kill "$(cat /run/work/daemon.pid)"
wait

objects=(--manifests /run/work/objects.yaml --hostname-override node)
# plans STATUS WORD LINE...: what ipvsctl plan says of a daemon with this --packet-filter.
plans() {
  local text
  text=$("$ipvsctl" plan "${objects[@]}" "--packet-filter=$2" 2>&1)
  [ $? -eq "$1" ] && has "$text" "${@:3}" || { echo "$text"; return 1; }
}
plans_to_iptables() {
  local before
  before=$(nft list ruleset)
  plans 0 auto || return 1
  plans 1 iptables '+ IPv4 nat: -A KUBE-SERVICES' '+ set KUBE-CLUSTER-IP' \
    'chains and 0 jumps in nftables, which is not used' '- set ip kube-ipvs services' &&
    [ "$before" = "$(nft list ruleset)" ] && ! grep . /proc/net/ip_tables_names
}
plans_to_nftables() {
  "$daemon" "${objects[@]}" --once --packet-filter=iptables || return 1
  plans 0 iptables && plans 0 auto &&
    plans 1 nftables '+ ip kube-ipvs services 10.96.0.1,tcp:80,cluster' '- set KUBE-CLUSTER-IP' \
      'jumps in iptables, which is not used' &&
    iptables -t nat -S KUBE-SERVICES && ipset list -n KUBE-CLUSTER-IP && [ -z "$(nft list tables)" ]
}
# Whatever appears meanwhile.
keeps_its_choice() {
  "$daemon" "${objects[@]}" --ipvs-sync-period=1h >/run/work/daemon.log 2>&1 &
  local pid=$!
  until_true settled && nft add table ip kube-ipvs && "$ipvsctl" diff
  local status=$?
  kill $pid
  wait $pid
  nft delete table ip kube-ipvs
  return $status
}
did_as_planned() { "$daemon" "${objects[@]}" --once --packet-filter=nftables && plans 0 nftables && plans 0 auto; }
check "ipvsctl plan tells the change to iptables, and makes nothing" plans_to_iptables
check "ipvsctl plan tells the change to nf_tables, and makes nothing" plans_to_nftables
check "ipvsctl diff keeps to the packet filter that the daemon chose" keeps_its_choice
check "nothing is left to plan after the change" did_as_planned

finish
