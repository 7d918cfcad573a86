#!/bin/bash
# What ipvsctl says of our tables of nf_tables after somebody's hand was in them, no daemon being there to
# mend it. Runs in a guest of qemu_run.sh.
#
#   nftables_damage_test.sh BUILD_FOLDER
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
build=$1
ipvsctl=$build/cmd/ipvsctl/ipvsctl
work=$(mktemp -d -p /run)
cd "$here/../.." || exit 1
flags=(--config examples/kube-proxy.yaml --manifests examples/shop --packet-filter=nftables)

host() {
  ip link set lo up
  ip link add eth0 type bridge && ip address add 10.200.0.2/24 dev eth0 && ip link set eth0 up &&
    ip link add cni0 type bridge && ip address add 10.244.0.1/24 dev cni0 && ip link set cni0 up &&
    ip route add default via 10.200.0.1 && sysctl -qw net.ipv4.ip_forward=1
}
program() {
  "$build/cmd/ipvs_proxier/ipvs-proxier" "${flags[@]}" --once >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
}
handle_of() { nft -a list chain ip kube-ipvs "$1" | sed -n "s/.*$2.*# handle //p" | head -1; }
plan() { "$ipvsctl" plan "${flags[@]}" 2>/dev/null; }
front() { "$ipvsctl" explain "${1:-203.0.113.7}" 192.0.2.10:80 2>/dev/null; }

# The plan names it, and the daemon's next start mends it.
mends() {
  has "$(plan)" "$1" && program && has "$(plan)" 'ipvs-proxier would change nothing'
}

as_it_should_be() {
  has "$(plan)" 'ipvs-proxier would change nothing' && has "$(front)" 'It goes to' &&
    has "$(front 198.51.100.9)" 'It is dropped at kube-ipvs input'
}
a_rule_deleted() {
  nft delete rule ip kube-ipvs input handle "$(handle_of input @services)" &&
    ! grep -F 'vmap @services' <<<"$("$ipvsctl" rules -4 input 2>/dev/null)" &&
    has "$(front)" 'It is refused (ICMP port unreachable) at kube-ipvs input' &&
    ! grep 'asked by IPv4 kube-ipvs input: .*@services' <<<"$("$ipvsctl" service 192.0.2.10:80 2>&1)" &&
    mends 'IPv4 kube-ipvs'
}
a_chain_flushed() {
  nft flush chain ip kube-ipvs postrouting && ! grep -F masquerade <<<"$("$ipvsctl" rules -4 postrouting 2>/dev/null)" &&
    has "$("$ipvsctl" explain node 10.96.0.20:80 2>/dev/null)" 'no rule masquerades it' &&
    mends 'IPv4 kube-ipvs'
}
an_element_removed() {
  nft delete element ip kube-ipvs services '{ 192.0.2.10 . tcp . 80 }' &&
    has "$(front)" 'It is refused (ICMP port unreachable) at kube-ipvs input' &&
    mends '+ ip kube-ipvs services 192.0.2.10,tcp:80'
}
a_policy_changed() {
  nft 'add chain ip kube-ipvs input { policy drop; }' &&
    has "$("$ipvsctl" rules)" 'policy drop: NOT CALLED AS IT SHOULD BE' &&
    has "$("$ipvsctl" explain 203.0.113.7 10.200.0.2:22 2>/dev/null)" 'It is dropped at kube-ipvs input: input policy DROP' &&
    mends 'IPv4 kube-ipvs'
}
a_dormant_table() {
  local dormant="table ip kube-ipvs is dormant: no packet meets its chains"
  nft 'add table ip kube-ipvs { flags dormant; }' &&
    has "$("$ipvsctl" rules input)" 'policy accept: NOT CALLED, its table is dormant' &&
    has "$(front)" "$dormant" && mends 'IPv4 kube-ipvs' &&
    ! grep -F "$dormant" <<<"$(front)" &&
    nft 'add table inet host { flags dormant; }; add chain inet host in { type filter hook input priority 0; policy drop; }' &&
    has "$(front)" 'table inet host is dormant' 'It goes to' && nft delete table inet host
}
an_element_with_a_limit() {
  nft -f - <<'END' || return 1
table ip host {
  set some { type ipv4_addr; limit rate 1/second; elements = { 203.0.113.7 limit rate 1/second } }
  set counted { type ipv4_addr; counter; elements = { 203.0.113.7 counter } }
  chain in { type filter hook input priority -10; ip saddr @some drop; fib saddr . iif oif missing drop; }
}
END
  has "$(front)" 'ip saddr @some drop' '(cannot be judged from here' 'fib saddr . iif oif missing drop' 'Not certain' &&
    nft 'flush chain ip host in; add rule ip host in ip saddr @counted drop' &&
    has "$(front)" 'It is dropped at ip host input: in ip saddr @counted drop' &&
    nft 'flush chain ip host in; add rule ip host in tcp dport vmap { 1-79 : accept, 80-90 : drop, 91-99 : accept }' &&
    has "$(front)" 'It is dropped at ip host input: in tcp dport vmap { 1 to before 80 : accept, 80 to before 91 : drop, 91 to before 100 : accept }' &&
    nft delete table ip host
}
left_by_kube_proxy() {
  nft -f - <<'END' || return 1
add table ip kube-proxy
add chain ip kube-proxy services
add table ip filter
add chain ip filter KUBE-FORWARD
add chain ip filter KUBE-KUBELET-CANARY
add chain ip filter FORWARD { type filter hook forward priority 0; }
add rule ip filter FORWARD jump KUBE-FORWARD
END
  has "$(plan)" "- IPv4 nf_tables: the table of kube-proxy's nftables mode" \
    '- IPv4 nf_tables: 1 chains and 1 jumps of a kube-proxy with iptables-nft' &&
    program && has "$(plan)" 'ipvs-proxier would change nothing' && has "$(nft list ruleset)" KUBE-KUBELET-CANARY
}

host || exit 1
program
check "what is right is told as right" as_it_should_be
check "a rule that was deleted" a_rule_deleted
check "a chain that was flushed" a_chain_flushed
check "an element that was removed" an_element_removed
check "a policy that was changed" a_policy_changed
check "a dormant table, ours and another" a_dormant_table
check "elements with statements, adjacent intervals, a question for a route" an_element_with_a_limit
check "what a kube-proxy left in nf_tables" left_by_kube_proxy
finish
