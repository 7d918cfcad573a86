#!/bin/bash
# The package's programs in the system in which they are installed, as the unit starts them: first
# --init-only, then the daemon with two capabilities, following files. Runs in a guest.
#
#   package_test.sh SYSTEM_ROOT FILE    leaves the names of the daemon's system calls in FILE
source "$(dirname "${BASH_SOURCE[0]}")/reference_guest.sh"
source "$here/cases.sh"
system=$1
calls=$2
work=$(mktemp -d) || exit 1
daemon_pid=
trap 'kill $daemon_pid 2>/dev/null; rm -rf "$work"' EXIT
config=--config=/etc/ipvs-proxier/config.yaml

mount_system() {
  mount -t proc proc "$system/proc" && mount --bind /sys "$system/sys" &&
    mount --bind /run "$system/run" && mkdir -p "$system/lib/modules" "$system/run/objects" &&
    mount --bind /lib/modules "$system/lib/modules" && cp -r "$shop"/objects/. /run/objects/
}
prepares() { chroot "$system" /usr/sbin/ipvs-proxier "$config" --init-only; }
start() {
  local last drop
  last=$(cat /proc/sys/kernel/cap_last_cap)
  drop=$(capsh --decode="$(printf '%x' $((((1 << (last + 1)) - 1) & ~(3 << 12))))")
  strace -f -qq -o "$work/trace" setpriv --no-new-privs capsh --chroot="$system" \
    --drop="${drop#*=}" --shell=/usr/sbin/ipvs-proxier -- "$config" --hostname-override=kp \
    --manifests=/run/objects >"$work/log" 2>&1 &
  daemon_pid=$!
}
touch_objects() { cp /run/objects/services.json /run/objects/more.json && rm /run/objects/more.json; }
# From the daemon's first call on: what starts it is not systemd.
keep_calls() {
  grep -E '^[0-9]+ +execve\("/usr/sbin/ipvs-proxier"' -A 1000000 "$work/trace" |
    sed -nE 's/^[0-9]+ +([a-z_0-9]+)\(.*/\1/p' | sort -u >"$calls"
  [ -s "$calls" ]
}

reference_guest || exit 1
check "(the system's mounts)" mount_system
check "it prepares the node" prepares
start
check "it becomes healthy" eventually healthy
check "ipvsctl shows virtual services" eventually eval "chroot '$system' /usr/sbin/ipvsctl list -o save | grep -q '^-A'"
check "(files change)" touch_objects
sleep 3
kill "$(pgrep -P "$daemon_pid")"
wait "$daemon_pid"
check "it ends cleanly" [ $? = 0 ]
check "(its system calls)" keep_calls
tr '\n' ' ' <"$calls"
finish
