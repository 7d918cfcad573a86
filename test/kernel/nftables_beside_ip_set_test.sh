#!/bin/bash
# What ipvsctl shows of nf_tables where the module ip_set is there as well, and after somebody flushed
# all of nf_tables. Runs in a guest of qemu_run.sh.
#
#   nftables_beside_ip_set_test.sh BUILD_FOLDER
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
build=$1
ipvsctl=$build/cmd/ipvsctl/ipvsctl
work=$(mktemp -d -p /run)
cd "$here/../.." || exit 1

has_ip_set() { [ -d /sys/module/ip_set ]; }
nothing='neither iptables nor nf_tables has'

"$build/cmd/ipvs_proxier/ipvs-proxier" --config examples/kube-proxy.yaml --manifests examples/shop \
  --packet-filter=nftables --once >"$work/log" 2>&1 || cat "$work/log"

shows_rules() {
  has_ip_set || modprobe ip_set || return 1
  has "$("$ipvsctl" rules)" 'IPv4 kube-ipvs ranges_192.0.2.10_tcp_80'
}
explains() {
  local text
  text=$("$ipvsctl" explain node 192.0.2.10:80)
  has "$text" 'restricted has no range of 192.0.2.10:80' && ! grep -F 'Not certain' <<<"$text"
}
tells_nothing() {
  has "$("$ipvsctl" rules)" 'IPv4 nat: nothing of ours' 'IPv4 kube-ipvs: nothing of ours' &&
    has "$("$ipvsctl" sets)" "$nothing sets of ours" &&
    has "$("$ipvsctl" service 10.96.0.20:80)" "$nothing any of ours"
}
loads_nothing() {
  modprobe -r ip_set && ! has_ip_set || return 1
  tells_nothing && ! has_ip_set
}

check "ipvsctl rules tells chains of source ranges of nf_tables beside module ip_set" shows_rules
check "ipvsctl explain judges them" explains
nft flush ruleset
check "of a flushed nf_tables ipvsctl tells that nothing of ours is anywhere" tells_nothing
check "without loading ip_set" loads_nothing
finish
