#!/bin/bash
# First process of a guest, started by uml_run.sh: prepares the system, runs the job, leaves its exit
# status in a file and stops the guest. In a fresh network namespace of a host it does the same but
# for what a host already has.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root
uml_run=$IPVS_GUEST_RUN
kind=$IPVS_GUEST_KIND

prepare_guest() {
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t devtmpfs devtmpfs /dev 2>/dev/null
  mkdir -p /dev/pts /dev/shm
  mount -t devpts -o ptmxmode=666 devpts /dev/pts
  ln -sfn /proc/self/fd /dev/fd
  mount -t tmpfs tmpfs /dev/shm
  # /tmp stays the host's: a clone may live there.
  mount -t tmpfs tmpfs /run
  mkdir -p /run/netns /run/lock
  # Files that a test makes: on the host's file system, where each lookup makes an inode of its own,
  # inotify tells nothing.
  export TMPDIR=/run
  if [ "$modules" = yes ]; then
    mount --bind /usr/lib/uml/modules /lib/modules
  else
    mount -t tmpfs tmpfs /lib/modules
  fi
  # The job writes bytes, not lines for a terminal.
  stty -F /dev/ttyS0 raw -echo
  exec 0</dev/null 1>/dev/ttyS0 2>&1
}

prepare_host_namespace() {
  mount -t sysfs sysfs /sys
  mount -t tmpfs tmpfs /run
  mkdir -p /run/netns /run/lock
}

source "$uml_run/job.sh"
[ "$kind" = uml ] && prepare_guest || prepare_host_namespace

if [ "$modules" = yes ]; then
  modprobe -q ipv6
fi
if [ "$preload" = yes ]; then
  # One process for all: starting one takes 30 ms in a guest.
  modprobe -a xt_ipvs ip_vs ip_vs_rr ip_vs_wrr ip_vs_sh ip_vs_mh nf_conntrack dummy br_netfilter ||
    echo "uml_init.sh: not all kernel modules could be loaded" >&2
  # By its little memory a guest would track 4096 flows only.
  [ "$kind" = uml ] && echo 65536 >/proc/sys/net/netfilter/nf_conntrack_max
fi
ip link set lo up

"${command[@]}"
status=$?

[ "$kind" = uml ] || exit $status
echo $status >"$uml_run/exit.new" && mv "$uml_run/exit.new" "$uml_run/exit"
sync
# A small system has no poweroff; where there is no magic key either, the kernel stops by itself when
# its first process is gone.
poweroff -f >/dev/null 2>&1 || { echo o >/proc/sysrq-trigger; sleep 5; }
