#!/bin/bash
# The demo without legacy iptables, and after it what ipvsctl shows of nf_tables. Runs in a guest of
# qemu_run.sh.
#
#   nftables_guest_test.sh BUILD_FOLDER
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"
build=$1
ipvsctl=$build/cmd/ipvsctl/ipvsctl
work=$(mktemp -d -p /run)

"$here/../support/demo.sh" "$build" || exit 1

cd "$here/../.." || exit 1
flags=(--config examples/kube-proxy.yaml --manifests examples/shop)
start_daemon() {
  local tenths
  "$build/cmd/ipvs_proxier/ipvs-proxier" "${flags[@]}" >"$work/log" 2>&1 &
  daemon=$!
  for ((tenths = 0; tenths < 600; ++tenths)); do
    grep -q synced: "$work/log" && return
    sleep 0.1
  done
  cat "$work/log"
}
start_daemon

bad='NOT OURS|NOT CALLED|LEFT OVER'
shows_rules() {
  local text
  text=$("$ipvsctl" rules) || return 1
  has "$text" 'IPv4 kube-ipvs input, type filter hook input priority -5, policy accept' \
    'IPv4 kube-ipvs ranges_192.0.2.10_tcp_80' 'ip saddr != 10.244.0.0/24 ip daddr != @vips return' &&
    ! grep -E "$bad" <<<"$text"
}
shows_documents() {
  "$ipvsctl" rules -o json | python3 -c 'import json, sys; assert json.load(sys.stdin)["chains"]' &&
    has "$("$ipvsctl" rules input -o yaml)" 'hook: type filter hook input priority -5'
}
shows_sets() {
  has "$("$ipvsctl" sets)" 'ip kube-ipvs services           services        IPv4' &&
    has "$("$ipvsctl" sets ip/kube-ipvs/services)" '10.96.0.20,tcp:80,cluster          shop/web:http' &&
    has "$("$ipvsctl" sets ip/kube-ipvs/restricted)" ' shop/front:http' &&
    has "$("$ipvsctl" sets ip/kube-ipvs/ranges_192.0.2.10_tcp_80)" '192.0.2.10,tcp:80,203.0.113.0/24 shop/front:http'
}
shows_service() {
  local text
  text=$("$ipvsctl" service shop/front) || { echo "$text"; return 1; }
  has "$text" 'ip kube-ipvs services' 'ip daddr . meta l4proto . th dport vmap @services' &&
    ! grep -E "$bad" <<<"$text"
}
shows_connections() { "$ipvsctl" connections; }
completes() {
  has "$("$ipvsctl" complete sets ip/)" ip/kube-ipvs/vips &&
    has "$("$ipvsctl" complete rules svc_)" svc_mark
}
nothing_differs() { "$ipvsctl" diff && "$ipvsctl" plan "${flags[@]}"; }

# By a daemon of the same settings that is elsewhere, and so repairs nothing here.
marks_what_others_did() {
  local socket=$work/elsewhere tenths elsewhere
  nft -f - <<'END' || return 1
add rule ip kube-ipvs to_vip counter accept
add chain ip kube-ipvs theirs
add set ip kube-ipvs their_set { type ipv4_addr; }
END
  unshare -n "$build/cmd/ipvs_proxier/ipvs-proxier" "${flags[@]}" --control-socket="$socket" >"$work/elsewhere.log" 2>&1 &
  elsewhere=$!
  trap "kill $elsewhere" EXIT  # of the subshell in which a case runs
  for ((tenths = 0; tenths < 600; ++tenths)); do
    "$ipvsctl" rules --control-socket "$socket" 2>&1 | grep -q 'not marked' || break
    sleep 0.1
  done
  ipvsctl_elsewhere() { "$ipvsctl" "$@" --control-socket "$socket"; }
  has "$(ipvsctl_elsewhere rules to_vip)" '         0            0  accept  # NOT OURS' &&
    ! grep -F 'reject  # NOT OURS' <<<"$(ipvsctl_elsewhere rules)" &&
    has "$(ipvsctl_elsewhere rules)" 'IPv4 kube-ipvs theirs: NOT OURS' 'IPv4 kube-ipvs set their_set: NOT OURS' &&
    has "$("$ipvsctl" sets)" 'ip kube-ipvs their_set: NOT OURS' &&
    has "$("$ipvsctl" rules -4 -o save 2>&1)" 'nft list table ip kube-ipvs'
}
lists_without_a_daemon() {
  local text
  text=$("$ipvsctl" rules 2>&1) || return 1
  has "$text" 'rules of others are not marked: no ipvs-proxier answers on ' 'IPv4 kube-ipvs input, type filter' \
    'IPv4 kube-ipvs theirs: NOT OURS' && ! grep -F 'accept  # NOT OURS' <<<"$text"
}
plans_the_repair() {
  local text
  text=$("$ipvsctl" plan "${flags[@]}")
  [ $? -eq 1 ] && has "$text" kube-ipvs && start_daemon && "$ipvsctl" diff
}

check "ipvsctl rules has our chains of nf_tables, and finds nothing wrong" shows_rules
check "ipvsctl rules as JSON and YAML" shows_documents
check "ipvsctl sets has sets and maps of nf_tables, and whose the elements are" shows_sets
check "ipvsctl service has the maps that a Service is in, and the rules that ask them" shows_service
check "ipvsctl connections" shows_connections
check "sets and chains of nf_tables are completed" completes
check "ipvsctl diff and plan find no difference" nothing_differs
kill "$daemon"
wait "$daemon"
check "ipvsctl rules marks what others did" marks_what_others_did
check "ipvsctl rules lists without a daemon, and says so" lists_without_a_daemon
check "ipvsctl plan tells the repair, and the daemon makes it" plans_the_repair
finish
