#!/bin/bash
# Tests the comparison itself: a reference state restored with the tools of the kernel's own people
# is found equal, and a change of any part is found and shown.
source "$(dirname "${BASH_SOURCE[0]}")/reference_guest.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
source "$here/cases.sh"

restore_addresses() {
  local words
  ip link add kube-ipvs0 type dummy && ip link set kube-ipvs0 txqueuelen 0
  while read -r -a words; do
    echo "addr add ${words[2]} dev kube-ipvs0"
  done <"$1/addrs.txt" | ip -batch -
}

restore() {
  local reference=$1 name value
  restore_addresses "$reference"
  cat "$reference/ipset-headers.txt" "$reference/ipset-members.txt" | ipset restore
  iptables-restore <"$reference/iptables.txt"
  ip6tables-restore <"$reference/ip6tables.txt"
  ipvsadm-restore <"$reference/ipvs.txt"
  while IFS='=' read -r name value; do
    echo "$value" >"/proc/sys/$name"
  done <"$reference/sysctl.txt"
  # shellcheck disable=SC2046
  ipvsadm --set $(sed 's/.*: //' "$reference/timeouts.txt")
}

dump_and_compare() {
  rm -rf "$work/dump"
  "$here/kernel_dump.sh" "$work/dump"
  "$here/kernel_compare.sh" "$reference" "$work/dump" >"$work/difference"
}

equal() {
  dump_and_compare && [ ! -s "$work/difference" ] || { cat "$work/difference"; return 1; }
}

# differs FILE LINE CHANGE...: after the change the difference of FILE shows LINE.
differs() {
  local file=$1 line=$2
  "${@:3}" || return 1
  dump_and_compare && return 1
  grep -q -- "^+++ $file: in the kernel" "$work/difference" &&
    grep -q -F -- "$line" "$work/difference" || { cat "$work/difference"; return 1; }
}

reference_guest || exit 1
reference=$shop/clustercidr/kernel
restore "$reference"
check "a restored reference state is equal" equal
check "an additional element is found" differs ipset-members.txt '+add KUBE-CLUSTER-IP 9.9.9.9,tcp:9' \
  ipset add KUBE-CLUSTER-IP 9.9.9.9,tcp:9
ipset del KUBE-CLUSTER-IP 9.9.9.9,tcp:9
check "its removal is found" equal
check "a missing real server is found" differs ipvs.txt '-a -t 10.100.166.15:53 -r 10.244.0.9:53' \
  ipvsadm -d -t 10.100.166.15:53 -r 10.244.0.9:53
ipvsadm -a -t 10.100.166.15:53 -r 10.244.0.9:53 -m -w 1
check "a weight is found" differs ipvs.txt '+-a -t 10.100.166.15:53 -r 10.244.0.9:53 -m -w 0' \
  ipvsadm -e -t 10.100.166.15:53 -r 10.244.0.9:53 -m -w 0
ipvsadm -e -t 10.100.166.15:53 -r 10.244.0.9:53 -m -w 1
check "a rule of IPv6 is found" differs ip6tables.txt '+-A KUBE-MARK-MASQ -j RETURN' \
  ip6tables -t nat -A KUBE-MARK-MASQ -j RETURN
ip6tables -t nat -D KUBE-MARK-MASQ -j RETURN
check "an address is found" differs addrs.txt '+kube-ipvs0    inet 10.9.9.9/32' \
  ip addr add 10.9.9.9/32 dev kube-ipvs0
ip addr del 10.9.9.9/32 dev kube-ipvs0
check "a link that is up is found" differs link.txt '+kube-ipvs0: <BROADCAST,NOARP,UP' \
  ip link set kube-ipvs0 up
ip link set kube-ipvs0 down
check "a set of another size is found" differs ipset-headers.txt '+create FOREIGN' \
  ipset create FOREIGN hash:ip
ipset destroy FOREIGN
check "a sysctl is found" differs sysctl.txt '+net/ipv4/conf/all/arp_ignore=1' \
  sysctl -q -w net.ipv4.conf.all.arp_ignore=1
sysctl -q -w net.ipv4.conf.all.arp_ignore=0
check "a timeout is found" differs timeouts.txt '+Timeout (tcp tcpfin udp): 901 120 300' \
  ipvsadm --set 901 0 0
ipvsadm --set 900 0 0
iptables -A KUBE-IPVS-OUT-FILTER -s 1.1.1.1 -j DROP
check "a rule in a chain without order is found" differs iptables.txt \
  '+-A KUBE-IPVS-OUT-FILTER -s 1.1.1.1/32 -j DROP' true
iptables -D KUBE-IPVS-OUT-FILTER -s 1.1.1.1 -j DROP
reference=$work/reordered
"$here/kernel_dump.sh" "$reference"
sed -i '/^-A KUBE-IPVS-OUT-FILTER/{p;s/192.0.2.10/192.0.2.99/g;}' "$reference/iptables.txt"
iptables -I KUBE-IPVS-OUT-FILTER -s 192.0.2.99/32 -m ipvs --vproto 6 --vaddr 192.0.2.99 --vport 443 \
  -j DROP
check "the order in KUBE-IPVS-OUT-FILTER is free" equal

finish
