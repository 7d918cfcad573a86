#!/bin/bash
# What the DaemonSet's container may is enough: after `--init-only` ran with everything, as its init
# container does, the reference state is programmed with CAP_NET_ADMIN and CAP_NET_RAW alone, no new
# privileges, a root and sysctls that cannot be written, no modprobe and no modules. Run as root with
# all capabilities, the daemon gives up the others by itself. Runs in a guest.
#
#   confined_test.sh CONFIGURATION PATH_OF_IPVS_PROXIER
source "$(dirname "${BASH_SOURCE[0]}")/reference_guest.sh"
source "$here/cases.sh"
work=$(mktemp -d) || exit 1
trap 'umount "$work/ipvs-proxier"; rm -rf "$work"' EXIT
mkdir "$work/empty"
touch /run/xtables.lock
# The clone may be in a folder that root cannot enter without CAP_DAC_OVERRIDE.
cp -r "$shop" "$work/shop" && touch "$work/ipvs-proxier" &&
  mount --bind "$2" "$work/ipvs-proxier" || exit 1
shop=$work/shop
reference=$shop/$1
daemon=$work/ipvs-proxier

flags=(--kube-proxy-compat --config "$reference/config.yaml")
manifests=(--manifests "$shop/objects")

init_succeeds() { "$daemon" --init-only "${flags[@]}"; }

# The capabilities that this shell could pass on, but for those of the container: capsh takes away.
others() {
  local all
  all=$(capsh --decode="$(sed -n 's/^CapBnd:\t//p' /proc/self/status)")
  tr , '\n' <<<"${all#*=}" | grep -vxE 'cap_net_admin|cap_net_raw' | paste -sd,
}

# What a container runtime makes of the DaemonSet's securityContext.
container='
  mount --make-rprivate / &&
  mount --bind /run/xtables.lock /run/xtables.lock &&
  mount --bind "$1/empty" /lib/modules &&
  mount --bind /dev/null "$(readlink -f "$(command -v modprobe)")" &&
  mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys &&
  mount -o remount,ro,bind /run && mount -o remount,ro,bind / || exit 1
  others=$2
  shift 2
  exec capsh --no-new-privs --drop="$others" --inh= -- -c '\''
    touch /run/probe /etc/probe 2>/dev/null && { echo "the root can be written"; exit 1; }
    grep -E "^(Cap(Prm|Eff|Bnd)|NoNewPrivs)" /proc/self/status
    exec "$@"'\'' - "$@"'

contained() { unshare -m bash -c "$container" - "$work" "$(others)" "$@" >"$work/log" 2>&1; }

programs() {
  contained "$daemon" --once "${flags[@]}" "${manifests[@]}"
  local status=$?
  cat "$work/log"
  [ $status = 0 ]
}

# NET_ADMIN is bit 12, NET_RAW bit 13.
was_contained() {
  cat "$work/log"
  [ "$(grep -cE '^Cap(Prm|Eff|Bnd):.0000000000003000$' "$work/log")" = 3 ] &&
    grep -q '^NoNewPrivs:.1$' "$work/log"
}

# Its OOM score is the kubelet's business.
no_complaints() {
  cat "$work/log"
  ! grep -E 'warning:|error:' "$work/log" | grep -vE 'nodePortAddresses|no Node '
}

# Every thread of a daemon that root started with all capabilities: NET_BIND_SERVICE is bit 10.
gives_up_the_others() {
  "$daemon" "${flags[@]}" "${manifests[@]}" >"$work/log" 2>&1 &
  local pid=$! threads sets oom failed=0
  eventually healthy || failed=1
  threads=$(ls "/proc/$pid/task" | wc -l)
  sets=$(grep -hE '^Cap(Prm|Eff|Bnd):.0000000000003400$' /proc/$pid/task/*/status | wc -l)
  oom=$(cat "/proc/$pid/oom_score_adj")
  kill "$pid"
  wait "$pid" || failed=1
  cat "$work/log"
  echo "$threads threads, $sets sets of capabilities, OOM score $oom"
  [ $failed = 0 ] && [ "$threads" -ge 3 ] && [ "$sets" = $((3 * threads)) ] && [ "$oom" = -999 ]
}

reference_guest || exit 1
check "$1: --init-only succeeds" init_succeeds
check "$1: everything is programmed in a container" programs
check "$1: (the container had no more than it should)" was_contained
check "$1: nothing is complained about" no_complaints
check "$1: the kernel holds the reference state" matches_reference
check "$1: started with all capabilities, the daemon keeps three" gives_up_the_others
check "$1: the kernel still holds the reference state" matches_reference
finish
