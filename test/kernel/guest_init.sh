#!/bin/bash
# First process of a guest, started by uml_run.sh or qemu_run.sh: prepares the system, runs the job,
# leaves its exit status in a file and stops the guest. In a fresh network namespace of a host it does
# the same but for what a host already has.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root
guest_run=$IPVS_GUEST_RUN
kind=$IPVS_GUEST_KIND

# The host's file system is the guest's, writable.
prepare_uml() {
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t devtmpfs devtmpfs /dev 2>/dev/null
  prepare_guest
  # /tmp stays the host's: a clone may live there.
  [ "$modules" = yes ] && mount --bind /usr/lib/uml/modules /lib/modules
  # Everything is built in.
  [ -d "/lib/modules/$(uname -r)" ] || built_in=yes
  output=/dev/ttyS0
}

# The host's file system is the guest's, read-only; what a command writes to /tmp is gone with the
# guest. The initial system (qemu_kernel.sh) has made /proc, /sys and /dev.
prepare_qemu() {
  prepare_guest
  mkdir /run/tmp /run/tmp/upper /run/tmp/work
  mount -t overlay -o lowerdir=/tmp,upperdir=/run/tmp/upper,workdir=/run/tmp/work tmp /tmp
  mkdir -p "$guest_run"
  mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 run "$guest_run"
  [ "$modules" = yes ] &&
    mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 modules /lib/modules
  output=/dev/hvc0
}

prepare_guest() {
  mkdir -p /dev/pts /dev/shm
  mount -t devpts -o ptmxmode=666 devpts /dev/pts
  ln -sfn /proc/self/fd /dev/fd
  mount -t tmpfs tmpfs /dev/shm
  mount -t tmpfs tmpfs /run
  mkdir -p /run/netns /run/lock
  # Files that a test makes: on the host's file system, where each lookup makes an inode of its own,
  # inotify tells nothing.
  export TMPDIR=/run
  [ "$modules" = yes ] || mount -t tmpfs tmpfs /lib/modules
}

prepare_host() {
  mount -t sysfs sysfs /sys
  mount -t tmpfs tmpfs /run
  mkdir -p /run/netns /run/lock
}

source "$guest_run/job.sh"
"prepare_$kind"
if [ "$kind" != host ]; then
  # The job writes bytes, not lines for a terminal.
  stty -F "$output" raw -echo
  exec 0</dev/null 1>"$output" 2>&1
fi

if [ "$modules" = yes ] && [ -z "${built_in:-}" ]; then
  modprobe -q ipv6
fi
if [ "$preload" = yes ]; then
  # One process for all: starting one takes 30 ms in a guest.
  [ -n "${built_in:-}" ] || modprobe ${without:+-q} -a xt_ipvs ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh ip_vs_mh nf_conntrack dummy br_netfilter ||
    [ -n "$without" ] || echo "guest_init.sh: not all kernel modules could be loaded" >&2
  # By its little memory a guest would track 4096 flows only.
  [ "$kind" = host ] || echo 65536 >/proc/sys/net/netfilter/nf_conntrack_max
fi
ip link set lo up

"${command[@]}"
status=$?

[ "$kind" = host ] && exit $status
echo $status >"$guest_run/exit.new" && mv "$guest_run/exit.new" "$guest_run/exit"
sync
# A small system has no poweroff; where there is no magic key either, the kernel stops by itself when
# its first process is gone.
poweroff -f >/dev/null 2>&1 || { echo o >/proc/sysrq-trigger; sleep 5; }
