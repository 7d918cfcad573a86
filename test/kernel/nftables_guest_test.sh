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

bad='MISSING|NOT OURS|NOT IN|NOT CALLED|LEFT OVER|no rule leads'
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

# What nft lists, as words in order, because it lists elements in any order.
nft_words() { nft -s list ruleset | tr -s ' \t\n,' '\n' | sort; }
loads_what_it_saves() {
  local words listing
  words=$(nft_words)
  listing=$("$ipvsctl" rules && "$ipvsctl" sets) || return 1
  "$ipvsctl" rules -4 -o save >"$work/save" && "$ipvsctl" rules -6 -o save >>"$work/save" || return 1
  nft -c -f "$work/save" && nft flush ruleset && [ -z "$(nft list ruleset)" ] &&
    has "$("$ipvsctl" sets)" 'neither iptables nor nf_tables has sets of ours' && nft -f "$work/save" ||
    { cat "$work/save"; return 1; }
  diff <(echo "$words") <(nft_words) && diff <(echo "$listing") <("$ipvsctl" rules && "$ipvsctl" sets) &&
    # In the place of what is there.
    nft -f "$work/save" && diff <(echo "$words") <(nft_words)
}
marks_what_others_did() {
  nft -f - <<'END' || return 1
add rule ip kube-ipvs to_vip counter accept
add chain ip kube-ipvs theirs
add set ip kube-ipvs their_set { type ipv4_addr; }
flush chain ip kube-ipvs postrouting
END
  has "$("$ipvsctl" rules to_vip)" '         0            0  accept  # NOT OURS' &&
    has "$("$ipvsctl" rules)" 'IPv4 kube-ipvs theirs: NOT OURS' 'IPv4 kube-ipvs set their_set: NOT OURS' \
      ' masquerade fully-random  # MISSING' &&
    has "$("$ipvsctl" sets)" 'ip kube-ipvs their_set: NOT OURS' &&
    has "$("$ipvsctl" rules -4 -o save)" '        accept' '    # chain theirs is not ours: left out'
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
check "nft loads what ipvsctl rules -o save printed, and all is as it was" loads_what_it_saves
check "nft makes the same of what is saved of a random cluster" python3 "$here/nftables_saves.py" "$build" 1 1
check "ipvsctl rules marks what others did" marks_what_others_did
check "ipvsctl plan tells the repair, and the daemon makes it" plans_the_repair
finish
