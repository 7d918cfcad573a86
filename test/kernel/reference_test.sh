#!/bin/bash
# What the daemon makes of the shop is what kube-proxy made of it; done twice it writes nothing; what
# somebody else changed is repaired. Runs in a guest, in its first network namespace.
#
#   reference_test.sh CONFIGURATION PATH_OF_IPVS_PROXIER
source "$(dirname "${BASH_SOURCE[0]}")/reference_guest.sh"
source "$here/cases.sh"
reference=$shop/$1
daemon=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Leaves the status, what was said and what the kernel was sent in files of $work.
sync_once() {
  strace -f -qq -s 64 -e trace=sendto,sendmsg,setsockopt -o "$work/trace" \
    "$daemon" --once --kube-proxy-compat --config "$reference/config.yaml" \
    --manifests "$shop/objects" >"$work/log" 2>&1
  echo $? >"$work/status"
}

sync_succeeds() {
  sync_once
  cat "$work/log"
  [ "$(cat "$work/status")" = 0 ]
}

# The one line that sums up a synchronisation: how many writes of each kind.
summary() { grep -o 'synced: ipvs .*' "$work/log"; }

summary_has() {
  echo "summary: $(summary)"
  [[ $(summary) =~ $1 ]]
}

# Seen from outside: requests for a change (only these ask for an acknowledgement; a datagram of
# several asks for one on its last), and tables that are replaced.
traced_writes() {
  grep -E 'send(msg|to)\(.*(NLM_F_ACK|RTM_NEW|RTM_DEL)' "$work/trace" |
    grep -vE 'IPSET_CMD_LIST|RTM_GET|nlctrl'
  grep -E 'setsockopt\([0-9]+, (SOL_IP|SOL_IPV6),' "$work/trace"
}

traces_writes() {
  [ "$(traced_writes | wc -l)" -gt 40 ] || { traced_writes | cut -c1-200; return 1; }
}

traces_only_questions() {
  traced_writes | cut -c1-200
  [ "$(grep -c -E 'sendmsg\(.*(IPSET_CMD_LIST|IPVS)' "$work/trace")" -gt 50 ] &&
    [ -z "$(traced_writes)" ]
}

# Counters of our rules as "RULE COUNTER" lines. Built-in chains are left out: the kernel itself sends
# packets (multicast reports) whenever it likes.
counters() {
  { iptables-save -c; ip6tables-save -c; } | sed -nE 's/^\[([0-9]+):[0-9]+\] (-A KUBE.*)/\2|\1/p'
}

counters_stayed() {
  cat "$work/log"
  awk -F '|' 'NR == FNR { before[$1] = $2; if ($2 > 0) used = 1; next }
    !($1 in before) { print "new: " $1; bad = 1; next }
    $2 + 0 < before[$1] + 0 { print "counter fell from " before[$1] " to " $2 ": " $1; bad = 1 }
    END { if (!used) print "no rule counted anything: nothing was tested"; exit bad || !used }' \
    "$work/before" "$work/after"
}

disturb() {
  local service server
  read -r _ _ service _ server _ < <(ipvsadm-save -n | grep '^-a -t 10' | head -1)
  ipvsadm -d -t "$service" -r "$server" &&
    ipvsadm -E -t 10.96.0.1:443 -s wrr &&
    ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:443 &&
    ipset add KUBE-CLUSTER-IP 10.96.99.99,tcp:443 &&
    ip addr del 10.96.0.1/32 dev kube-ipvs0 &&
    ip addr add 10.96.99.99/32 dev kube-ipvs0 &&
    iptables -t nat -F KUBE-MARK-MASQ &&
    ip6tables -D INPUT 1 &&
    sysctl -q -w net.ipv4.vs.conntrack=0
}

reference_guest || exit 1
check "$1: everything is programmed" sync_succeeds
check "$1: the kernel holds the reference state" matches_reference
check "$1: the summary counts writes" summary_has \
  'ipvs [1-9][0-9]*, links 1, addresses [1-9][0-9]*, elements [1-9][0-9]*, sets 34, rule tables 4, sysctls [1-9][0-9]*, flows 0, failures 0'

check "$1: the trace shows writes" traces_writes

# A packet from the loopback net: counted by the first rule of KUBE-SERVICES.
(exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null
counters >"$work/before"
sync_once
counters >"$work/after"
check "$1: a second run writes nothing" summary_has \
  'ipvs 0, links 0, addresses 0, elements 0, sets 0, rule tables 0, sysctls 0, flows 0, failures 0'
check "$1: a second run asks the kernel only questions" traces_only_questions
check "$1: a second run leaves the packet counters" counters_stayed
check "$1: a second run leaves the state" matches_reference

check "$1: (the state is disturbed)" disturb
check "$1: a third run succeeds" sync_succeeds
check "$1: what somebody else changed is repaired" matches_reference
finish
