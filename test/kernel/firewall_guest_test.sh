#!/bin/bash
# Firewalls of a host that drop packets of Services: the daemon names each with a rule, and with that rule
# the packets pass. Runs in a guest of qemu_run.sh.
#
#   firewall_guest_test.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/neighbours.sh"

# What the daemon's last warning says to add, as commands.
advice() { sed -n 's/.*warning: nf_tables chain .* drops .*; add: \(nft .*\)/\1/p' "$work/log" | tail -1 |
  sed 's/; with all addresses.*//; s/; nft /\nnft /g'; }

# A host's chain at HOOK that lets pass what RULES say, and nothing else.
host_firewall() {
  nft -f - <<END
table inet host {
  chain c {
    type filter hook $1 priority filter; policy drop;
    $2
  }
}
END
}
gone() { nft delete table inet host && until_true drops 0; }
# It is found at once, traffic stops; with the rule that was named traffic passes, and the warning goes.
named_and_cured() {
  local status=0
  host_firewall "$1" "$2" || return 1
  until_true drops 1 && ! answers client 10.96.0.1 web >/dev/null &&
    has "$("$ipvsctl" status)" "problem          nf_tables chain inet host c drops" &&
    has "$("$ipvsctl" check --manifests "$work/objects.yaml" 2>&1)" 'nf_tables chain inet host c drops' &&
    advice >"$work/advice" && [ -s "$work/advice" ] && bash -e "$work/advice" && all_pass &&
    until_true drops 0 && grep -F 'no longer so: nf_tables chain inet host c drops' "$work/log" || status=1
  [ $status -eq 0 ] || { cat "$work/advice"; nft list table inet host; tail -5 "$work/log"; }
  gone && return $status
}
arp_free='ct state established,related accept; iifname lo accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept; tcp dport 22 accept;'
in_input() { named_and_cured input "$arp_free"; }
in_forward() { named_and_cured forward 'tcp dport 8443 accept;'; }
in_output() { named_and_cured output 'ct state established,related accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; oifname lo accept; tcp dport 443 accept;'; }

# Rules that let Services pass from the start: nobody is warned, and it is true.
fine_from_the_start() {
  host_firewall input "$arp_free ip daddr { 10.96.0.0/12, 192.0.2.0/24 } accept; ip6 daddr { fd00:96::/112, 2001:db8::/64 } accept; th dport 30000-32767 accept;" ||
    return 1
  sleep 2
  drops 0 && all_pass && ! "$ipvsctl" status | grep problem
  local status=$?
  gone && return $status
}
found_at_start() {
  stop_daemon
  host_firewall input "$arp_free"
  start_daemon --packet-filter=nftables --ipvs-sync-period=5s
  until_true grep -qF 'warning: nf_tables chain inet host c drops what comes for Services' "$work/log" && until_true drops 1
  local status=$?
  gone && return $status
}
legacy_policy() {
  stop_daemon
  iptables-legacy -P FORWARD DROP
  start_daemon --packet-filter=nftables --ipvs-sync-period=5s
  until_true grep -qF 'warning: legacy IPv4 table filter: chain FORWARD drops what pods answer' "$work/log" && until_true drops 1 &&
    ! answers client 10.96.0.1 web &&
    iptables-legacy -I FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT && all_pass && until_true drops 0
  local status=$?
  iptables-legacy -F FORWARD
  iptables-legacy -P FORWARD ACCEPT
  return $status
}

# What the last warning about a legacy chain says to add.
legacy_advice() {
  sed -n 's/.*warning: legacy IPv4 table filter: chain .* drops .*; add: \(iptables-legacy .*\)/\1/p' "$work/log" | tail -1 |
    sed 's/; with all addresses.*//; s/; iptables/\niptables/g'
}
passes_v4() { answers client 10.96.0.1 web && answers client 192.0.2.10 web && answers client 10.0.1.1:30080 web; }
# FILTER CHAIN: rules, not a policy, drop what is not accepted; the daemon says so, and what it says helps.
legacy_rules() {
  stop_daemon
  local status=1
  "$daemon" --cleanup >/dev/null 2>&1
  iptables-legacy -N HOST
  iptables-legacy -A HOST -i lo -j ACCEPT
  iptables-legacy -A HOST -p tcp -m multiport --dports 22,8443 -j ACCEPT
  iptables-legacy -A HOST -p icmp -j ACCEPT
  iptables-legacy -A HOST -j REJECT --reject-with icmp-host-prohibited
  [ "$2" = INPUT ] && iptables-legacy -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
  iptables-legacy -A "$2" -j HOST
  start_daemon "--packet-filter=$1" --ipvs-sync-period=5s
  until_true drops 1 && ! answers client 10.96.0.1 web &&
    has "$("$ipvsctl" status)" "problem          legacy IPv4 table filter: chain $2 drops" &&
    has "$("$ipvsctl" check --manifests "$work/objects.yaml" 2>&1)" "legacy IPv4 table filter: chain $2 drops" &&
    legacy_advice >"$work/advice" && [ -s "$work/advice" ] && bash -e "$work/advice" && passes_v4 &&
    until_true drops 0 && status=0
  [ $status -eq 0 ] || { cat "$work/advice"; iptables-legacy -S; tail -5 "$work/log"; }
  iptables-legacy -F "$2"
  iptables-legacy -F HOST
  iptables-legacy -X HOST
  return $status
}
# With iptables ours let pass what pods answer, before rules and policies of others.
legacy_forward_is_ours() {
  stop_daemon
  iptables-legacy -P FORWARD DROP
  iptables-legacy -A FORWARD -j DROP
  start_daemon --packet-filter=iptables --ipvs-sync-period=5s
  until_true settled && until_true passes_v4 && sleep 2 && drops 0 && ! grep 'FORWARD drops' "$work/log"
  local status=$?
  iptables-legacy -F FORWARD
  iptables-legacy -P FORWARD ACCEPT
  return $status
}

make_cluster
start_daemon --packet-filter=nftables --ipvs-sync-period=5s
check "Services answer" until_true all_pass
check "a firewall in input is named, and its rule helps" in_input
check "a firewall in forward is named, and its rule helps" in_forward
check "a firewall in output is named, and its rule helps" in_output
check "a firewall that lets Services pass is no warning" fine_from_the_start
check "a firewall is found at the start" found_at_start
check "a policy of legacy iptables is named, and its rule helps" legacy_policy
for chain in INPUT FORWARD; do
  check "nf_tables: rules of legacy $chain are named, and the rule helps" legacy_rules nftables $chain
done
check "iptables: rules of legacy INPUT are named, and the rule helps" legacy_rules iptables INPUT
check "iptables: what legacy FORWARD drops is no warning" legacy_forward_is_ours
stop_daemon
finish
