#!/bin/bash
# The image's root as the DaemonSet runs it: read-only, the init container with all rights, then the
# daemon with two capabilities, which makes of the shop what kube-proxy made of it. Runs in a guest, in
# its first network namespace.
#
#   image_test.sh IMAGE_ROOT
source "$(dirname "${BASH_SOURCE[0]}")/reference_guest.sh"
source "$here/cases.sh"
image=$1
reference=$shop/clustercidr
root=/run/image
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# As a container runtime does it: mount points first, then nothing can be written but the lock.
mount_container() {
  mkdir "$root" && mount --bind "$image" "$root" && mount -t tmpfs run "$root/run" &&
    touch "$root/run/xtables.lock" /run/xtables.lock && mkdir "$root/run/ipvs-proxier" &&
    mount --bind "$shop" "$root/etc/ipvs-proxier" &&
    mount --bind /proc "$root/proc" && mount --bind /sys "$root/sys" &&
    mount --bind /dev "$root/dev" && mount --bind /lib/modules "$root/lib/modules" &&
    mount -o remount,bind,ro "$root/run" && mount -t tmpfs -o size=1m run "$root/run/ipvs-proxier" &&
    mount --bind /run/xtables.lock "$root/run/xtables.lock" &&
    mount -o remount,bind,ro "$root" && ! touch "$root/tmp/x" && ! touch "$root/run/x"
}
# What only the init container may: modules, sysctls.
narrow_container() {
  umount "$root/lib/modules" && mount --bind /proc/sys "$root/proc/sys" &&
    mount -o remount,bind,ro "$root/proc/sys" && mount -o remount,bind,ro "$root/sys" &&
    ! sysctl_of_container
}
sysctl_of_container() { (echo 1 >"$root/proc/sys/net/ipv4/vs/conntrack") 2>/dev/null; }

# with MASK PROGRAM ARGUMENT...: in the container with the capabilities of a mask.
with() {
  local last drop
  last=$(cat /proc/sys/kernel/cap_last_cap)
  drop=$(capsh --decode="$(printf '%x' $((((1 << (last + 1)) - 1) & ~$1)))")
  setpriv --no-new-privs capsh --chroot="$root" --drop="${drop#*=}" --shell="/usr/sbin/$2" -- "${@:3}"
}
net_admin=$((1 << 12))
net_raw=$((1 << 13))
once() {
  with "$1" ipvs-proxier --once --kube-proxy-compat --config=/etc/ipvs-proxier/clustercidr/config.yaml \
    --manifests=/etc/ipvs-proxier/objects
}
cannot_once() { ! once "$1"; }
prepares() {
  chroot "$root" /usr/sbin/ipvs-proxier --init-only \
    --config=/etc/ipvs-proxier/clustercidr/config.yaml
}
# As `kubectl exec` runs it: in the container, with its capabilities.
ctl() { with $((net_admin | net_raw)) ipvsctl "$@"; }
lists() { ctl list -o save | grep -q '^-A -t 10.96.0.1:443'; }
follows() {
  # Where the probes would not look.
  { cat "$reference/config.yaml" && echo 'healthzBindAddress: 127.0.0.1:10266'; } \
    >"$root/run/ipvs-proxier/config.yaml"
  with $((net_admin | net_raw)) ipvs-proxier --kube-proxy-compat \
    --config=/run/ipvs-proxier/config.yaml --manifests=/etc/ipvs-proxier/objects \
    >"$work/log" 2>&1 &
  local tries
  for tries in {1..50}; do ctl status >"$work/status" && return 0; sleep 0.2; done
  cat "$work/log" "$work/status"
  return 1
}
# What the DaemonSet's probes run, whatever healthzBindAddress is.
probes() { ctl status --probe=livez && ctl status --probe=healthz; }
probes_fail() { ! ctl status --probe=livez && ! ctl status --probe=healthz; }
agrees() { ctl diff; }
explains() { ctl explain node 10.96.0.1:443 --live; }

reference_guest || exit 1
modprobe br_netfilter # which the reference's node had
check "(the container's mounts)" mount_container
check "the init container prepares the node" prepares
check "it loaded modules" [ -d /sys/module/ip_vs ]
check "(modules and sysctls are out of reach)" narrow_container
check "one capability is too few" cannot_once "$net_raw"
check "NET_ADMIN and NET_RAW program the shop" once $((net_admin | net_raw))
check "the kernel holds the reference state" matches_reference
check "ipvsctl shows it" lists
check "the daemon follows, and ipvsctl reaches it" follows
check "ipvsctl diff finds nothing" agrees
check "ipvsctl explain has the rights that it needs" explains
check "the DaemonSet's probes are well" probes
kill %1 && wait %1
check "and fail without the daemon" probes_fail
check "without the daemon the table is listed all the same" lists
finish
