#!/bin/bash
# Services beside firewalld itself, with the packet filter FILTER: its zones, and what it reloads while
# connections begin. Runs in a guest of qemu_run.sh; exit status 77 without firewalld.
#
#   firewalld_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL FILTER
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"
filter=$3
command -v firewalld >/dev/null && command -v dbus-daemon >/dev/null ||
  { echo "firewalld (or dbus-daemon) is not installed: nothing was tested"; exit 77; }

# It writes its configuration below the folder; that of the system is read-only here.
firewalld_runs() {
  mkdir -p /run/dbus "$work/firewalld" && cp -r /etc/firewalld/. "$work/firewalld" || return 1
  [ -S /run/dbus/system_bus_socket ] || dbus-daemon --system --fork --nopidfile || return 1
  firewalld --nofork --nopid --system-config="$work/firewalld" --log-file="$work/firewalld.log" >"$work/firewalld.out" 2>&1 &
  echo $! >"$work/firewalld.pid"
  local left=120
  until firewall-cmd --state; do
    ((left-- > 0)) || { cat "$work/firewalld.out" "$work/firewalld.log"; return 1; }
    sleep 1
  done
}
firewalld_gone() { ! kill -0 "$(cat "$work/firewalld.pid")" 2>/dev/null; }

refused() { ! answers client 10.96.0.1 web >/dev/null && ! answers client "10.0.1.1:30080" web >/dev/null; }
named() { until_true drops 1 && grep 'nf_tables chain inet firewalld filter_INPUT drops what comes for Services' "$work/log"; }

beside_services() { firewalld_runs && until_true refused && named; }
# The zone of the link by which packets come decides, not that of the addresses.
kube_ipvs0_in_trusted() { firewall-cmd --zone=trusted --add-interface=kube-ipvs0 && refused && drops 1; }
# The links of pods belong to a zone that trusts; what comes from outside needs rules, if it shall come.
may_drop() { grep 'nf_tables chain inet firewalld filter_INPUT may drop what comes for Services' "$work/log"; }
zones_of_pods() {
  firewall-cmd --permanent --zone=trusted --add-interface=to-pod && firewall-cmd --reload && until_true answers pod 10.96.0.1 web &&
    until_true answers pod '[fd00:96::1]' web && refused && until_true drops 0 && until_true may_drop ||
    { tail -20 "$work/log"; return 1; }
}
rules_of_services() {
  local rule family
  for rule in ipv4/10.96.0.0/12 ipv4/192.0.2.0/24 ipv6/fd00:96::/112 ipv6/2001:db8::/64; do
    family=${rule%%/*}
    firewall-cmd --permanent --zone=public \
      --add-rich-rule="rule family=$family destination address=${rule#*/} accept" || return 1
  done
  firewall-cmd --permanent --zone=public --add-port=30000-32767/tcp --add-port=30000-32767/udp &&
    firewall-cmd --reload && until_true all_pass && until_true drops 0
}

# New connections, one after the other, while firewalld reloads; each may take 15 s, as firewalld drops new ones
# until it has its rules again (ReloadPolicy), and a client asks again after 1, 3 and 7 s.
knock() {
  local failed=0 all=0 slow=0 began
  while [ ! -e "$work/enough" ]; do
    began=$EPOCHREALTIME
    [ "$(ip netns exec client curl -s -m 15 http://10.96.0.1/)" = web ] || ((failed++))
    awk "BEGIN { exit !($EPOCHREALTIME - $began > 0.9) }" && ((slow++))
    ((all++))
  done
  echo "$failed of $all failed, $slow took a second or more" >"$work/knocked"
}
reload_under_traffic() {
  rm -f "$work/enough"
  knock &
  local knocking=$! status=0
  sleep 2
  for _ in 1 2 3; do
    firewall-cmd --reload || status=1
    sleep 2
  done
  touch "$work/enough"
  wait $knocking
  cat "$work/knocked" >&3
  until_true all_pass && [ $status = 0 ] && grep -q '^0 of' "$work/knocked"
}
# It flushes the legacy tables, too, where iptables is that of them.
our_rules_come_back() {
  firewall-cmd --reload || return 1
  until_true settled && "$ipvsctl" diff ||
    { "$ipvsctl" rules; tail -20 "$work/log"; return 1; }
}
stops() { kill "$(cat "$work/firewalld.pid")" && until_true firewalld_gone && until_true all_pass && until_true drops 0; }

exec 3>&1
make_cluster
start_daemon "--packet-filter=$filter"
check "$filter: Services answer" until_true all_pass
check "$filter: firewalld comes, refuses Services, and is named" beside_services
check "$filter: kube-ipvs0 in a zone that trusts changes nothing" kube_ipvs0_in_trusted
check "$filter: pods in a zone that trusts reach Services, others do not" zones_of_pods
check "$filter: with its rules all pass" rules_of_services
check "$filter: no connection fails while it reloads" reload_under_traffic
check "$filter: what it takes from us comes back" our_rules_come_back
check "$filter: without it all pass" stops
stop_daemon
finish
