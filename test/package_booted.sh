#!/bin/bash
# The service of the package under systemd, in a guest that package_boot.sh booted. Leaves what it saw
# in /result and turns the guest off.
source "$(dirname "${BASH_SOURCE[0]}")/cases.sh"
exec >/result 2>&1
unit=ipvs-proxier.service

# The configuration on a file system of the guest's own: of one of the host inotify tells nothing.
node() {
  cp /etc/ipvs-proxier/config.yaml /run/ && mount -t tmpfs etc /etc/ipvs-proxier &&
    cp /run/config.yaml /etc/ipvs-proxier/ || return 1
  ip link set lo up && ip link add vec0 type dummy && ip link set vec0 up &&
    ip addr add 10.200.0.2/24 dev vec0 && ip addr add fd00:200::2/64 dev vec0 nodad
}
shown() { systemctl show -p "$1" --value "$unit"; }
log() { journalctl -b -u "$unit" --no-pager -n 40; }
starts() { systemctl start "$unit" && [ "$(shown ActiveState)" = active ] || { log; return 1; }; }
tells_how_it_is() { shown StatusText | grep .; }
# NET_ADMIN is bit 12, NET_RAW bit 13; mode 2 of seccomp is a filter.
is_confined() {
  local status
  status=$(cat "/proc/$(shown MainPID)/status")
  echo "$status"
  [ "$(grep -cE '^Cap(Prm|Eff|Bnd):.0000000000003000$' <<<"$status")" = 3 ] &&
    grep -q '^NoNewPrivs:.1$' <<<"$status" && grep -q '^Seccomp:.2$' <<<"$status"
}
# Says what it could do.
sees_a_closed_system() {
  local could
  could=$(nsenter --mount="/proc/$(shown MainPID)/ns/mnt" sh -c '
    for path in /etc/x /usr/x /run/x /objects/x /proc/sys/net/ipv4/ip_forward; do
      (echo 1 >"$path") 2>/dev/null && echo "write $path"
    done
    (: >>/run/xtables.lock) || echo "not lock"
    ls -A /home /root 2>/dev/null | grep -v : ; ls /dev/mem /dev/vda 2>/dev/null')
  echo "$could"
  cut -d' ' -f4-6 "/proc/$(shown MainPID)/mountinfo"
  [ -z "$(tr -d '\n' <<<"$could")" ]
}
is_spared() { [ "$(cat "/proc/$(shown MainPID)/oom_score_adj")" = -999 ]; }
lock_is_roots() { [ "$(stat -c '%U %a' /run/xtables.lock)" = 'root 600' ]; }
has_services() { [ "$(ipvsadm_lines)" -gt 40 ]; }
ipvsadm_lines() { /test/ipvsctl list -o save | wc -l; }
# became_another PID: active again as another process.
became_another() {
  local i
  for ((i = 0; i < 120; i++)); do
    [ "$(shown ActiveState)" = active ] && [ "$(shown MainPID)" != "$1" ] && return 0
    sleep 0.5
  done
  log
  return 1
}
comes_back_after() {
  local pid
  pid=$(shown MainPID)
  "$@" && became_another "$pid"
}
is_killed() { systemctl kill -s KILL "$unit"; }
is_configured() { sed -i 's/^mode: ipvs$/&\nipvs: {syncPeriod: 20s}/' /etc/ipvs-proxier/config.yaml; }
is_upgraded() { dpkg --force-confold -i /package.deb; }
is_removed() { dpkg -r ipvs-proxier && [ "$(shown ActiveState)" = inactive ]; }
is_purged() { dpkg -P ipvs-proxier && [ ! -e /etc/ipvs-proxier/config.yaml ] && [ ! -e "/lib/systemd/system/$unit" ]; }

check "(a node)" node
check "systemd starts the service and hears that it is ready" starts
cp /usr/sbin/ipvsctl /test/ # for when the package is gone
check "it tells how it is" tells_how_it_is
check "the kernel holds the Services" has_services
check "two capabilities, no new ones, a filter of system calls" is_confined
check "it sees a system that cannot be written" sees_a_closed_system
check "it is spared when memory is short" is_spared
check "the lock file is root's" lock_is_roots
check "it comes back after it was killed" comes_back_after is_killed
check "and with a configuration that has changed" comes_back_after is_configured
check "an upgrade restarts it" comes_back_after is_upgraded
check "a removal stops it" is_removed
check "and leaves the kernel as it is" has_services
check "so does a purge" is_purged
check "the Services are still there" has_services
finish
sync
systemctl poweroff -f -f
