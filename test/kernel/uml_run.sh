#!/bin/bash
# Runs one command, with its arguments, environment and working directory, in a scratch kernel: User
# Mode Linux, which sees the files of this host. Its output is ours, its exit status is ours.
#
#   uml_run.sh [--mem 512M] [--timeout SECONDS] [--nftables] [--no-modules] [--no-preload] COMMAND [ARGUMENT...]
#
#   --nftables     the kernel of uml_kernel.sh, which has nf_tables: all is built in, nothing is loaded
#   --no-modules   nothing can be loaded: a host whose kernel lacks IPVS
#   --no-preload   modules are there but none is loaded before the command starts
#
# Without User Mode Linux, or with IPVS_PROXIER_KERNEL=host, the command runs in a fresh network
# namespace of this host if its kernel has IPVS. Exit status 77 if there is neither, 124 after the
# timeout, 125 if the guest ended without an answer.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/kernel/guest_run.sh
source "$here/guest_run.sh"
memory=512M
kernel=linux.uml

own_option() {
  [ "$1" = --nftables ] || return
  taken=1
  kernel=$("$here/uml_kernel.sh") || exit 77
}
parse_options "$@"

host_has_ipvs() {
  [ -e /proc/net/ip_vs ] || modprobe -q ip_vs 2>/dev/null
  [ -e /proc/net/ip_vs ] || [ -d /sys/module/ip_vs ]
}

in_host_namespace() {
  # A mount namespace as well, so that /sys shows the links of the new network namespace.
  timeout -k 5 "$seconds" unshare -n -m env IPVS_GUEST_RUN="$run" IPVS_GUEST_KIND=host \
    bash "$run/init.sh" </dev/null &
  wait_for_child
}

# The guest's memory is a file: in /dev/shm, unless that is too small for it (as in many containers).
memory_folder() {
  local free need=${memory%[MG]}
  [[ $memory == *G ]] && need=$((need * 1024))
  free=$(df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
  if [ "${free:-0}" -gt "$need" ]; then echo /dev/shm; else echo "$run"; fi
}

# The guest's kernel and its processes are processes of this host that take turns at every system call and
# page fault. On processors of their own each turn wakes an idle one, which takes ten times as long. Sets
# `processor` to the one that the fewest other guests have, which fd 5 holds until this script ends.
own_processor() {
  local all part each guests
  all=$(taskset -cp $$ | sed 's/.*: //')
  for guests in {1..8}; do
    for part in ${all//,/ }; do
      for each in $(seq "${part%-*}" "${part#*-}"); do
        processor=$each
        exec 5>"/tmp/ipvs-guest-processor-$each-$guests"
        flock -n 5 && return
      done
    done
  done
}

in_guest() {
  # Output has a serial line of its own: the console is for the kernel.
  local processor
  own_processor
  TMPDIR=$(memory_folder) timeout -k 5 "$seconds" taskset -c "$processor" \
    env LD_PRELOAD="$("$here/uml_preload.sh" "$run")" "$kernel" mem="$memory" \
    root=/dev/root rootfstype=hostfs rootflags=/ rw init="$run/init.sh" quiet \
    con=null con0=null,fd:1 ssl=null ssl0=null,fd:4 uml_dir="$run" umid=guest \
    IPVS_GUEST_RUN="$run" IPVS_GUEST_KIND=uml \
    4>&1 5>&- >"$run/console.log" 2>&1 </dev/null &
  wait_for_child
  local status=$?
  # It ends the process that wants more, by SIGKILL, whatever the guest's memory.
  grep -q 'vm.max_map_count has been reached' "$run/console.log" &&
    echo "uml_run.sh: a process of the guest had more mappings than this host's vm.max_map_count allows" >&2
  exit_status $status
}

make_run_folder
if [ "${IPVS_PROXIER_KERNEL:-}" != host ] && command -v "$kernel" >/dev/null; then
  in_guest
elif [ $modules = yes ] && host_has_ipvs; then
  in_host_namespace
else
  echo "uml_run.sh: neither linux.uml (package user-mode-linux) nor IPVS in this kernel" >&2
  exit 77
fi
