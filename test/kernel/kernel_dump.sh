#!/bin/bash
# Writes what proxying keeps in the kernel of this network namespace into files of a folder, in a form
# that can be compared: sorted where the kernel has no order, without counters and addresses of luck.
#
#   kernel_dump.sh FOLDER
set -u
export LC_ALL=C
folder=$1
mkdir -p "$folder" && cd "$folder" || exit 1

dump_rules() {
  { "$1" -t filter; "$1" -t nat; } |
    sed -e '/^#/d' -e 's/ \[[0-9]*:[0-9]*\]//' -e 's/[[:blank:]]*$//'
}

# Without a process for each: in the guest that costs more than all else.
dump_sysctls() {
  local name value
  for name in net/ipv4/vs/{conntrack,conn_reuse_mode,expire_nodest_conn,expire_quiescent_template} \
    net/ipv4/ip_forward net/ipv6/conf/all/forwarding \
    net/ipv4/conf/all/{arp_ignore,arp_announce,route_localnet} \
    net/bridge/bridge-nf-call-iptables \
    net/netfilter/nf_conntrack_{max,tcp_timeout_established,tcp_timeout_close_wait,tcp_be_liberal}; do
    value=absent
    [ ! -r "/proc/sys/$name" ] || read -r value <"/proc/sys/$name"
    echo "$name=$value"
  done
}

ipvsadm-save -n | sort >ipvs.txt
ipset save >ipset-all
sed -n '/^add /p' ipset-all | sort >ipset-members.txt
sed -n '/^create /p' ipset-all | sed -E 's/ (initval|bucketsize) [^ ]+//g' | sort >ipset-headers.txt
rm ipset-all
dump_rules iptables-save >iptables.txt
dump_rules ip6tables-save >ip6tables.txt
ip -o addr show kube-ipvs0 2>/dev/null | sed -E -e 's/\\.*//' -e 's/^[0-9]+: //' | sort >addrs.txt
ip -o link show kube-ipvs0 2>/dev/null |
  sed -E -e 's/^[0-9]+: //' -e 's,link/ether [0-9a-f:]+,link/ether MAC,' >link.txt
dump_sysctls >sysctl.txt
ipvsadm -L --timeout >timeouts.txt
