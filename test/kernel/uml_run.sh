#!/bin/bash
# Runs one command, with its arguments, environment and working directory, in a scratch kernel: User
# Mode Linux, which sees the files of this host. Its output is ours, its exit status is ours.
#
#   uml_run.sh [--mem 512M] [--timeout SECONDS] [--no-modules] [--no-preload] COMMAND [ARGUMENT...]
#
#   --no-modules   nothing can be loaded: a host whose kernel lacks IPVS
#   --no-preload   modules are there but none is loaded before the command starts
#
# Without User Mode Linux, or with IPVS_PROXIER_KERNEL=host, the command runs in a fresh network
# namespace of this host if its kernel has IPVS. Exit status 77 if there is neither, 124 after the
# timeout, 125 if the guest ended without an answer.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
memory=512M
seconds=580
modules=yes
preload=yes

while [ $# -gt 0 ]; do
  case $1 in
    --mem) memory=$2; shift 2 ;;
    --timeout) seconds=$2; shift 2 ;;
    --no-modules) modules=no; preload=no; shift ;;
    --no-preload) preload=no; shift ;;
    --) shift; break ;;
    -*) echo "uml_run.sh: unknown option $1" >&2; exit 2 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }

host_has_ipvs() {
  [ -e /proc/net/ip_vs ] || modprobe -q ip_vs 2>/dev/null
  [ -e /proc/net/ip_vs ] || [ -d /sys/module/ip_vs ]
}

# One folder per run: what the guest is told, and what it answers.
run=$(mktemp -d "${TMPDIR:-/tmp}/ipvs-guest.XXXXXX") || exit 125
trap 'rm -rf "$run"' EXIT

# Only the legacy iptables speak the tables that we write; a guest has no nf_tables at all.
mkdir "$run/bin"
for name in {ip,ip6}tables{,-save,-restore}; do
  ln -s "$(command -v xtables-legacy-multi || echo /usr/sbin/xtables-legacy-multi)" "$run/bin/$name"
done

{
  export -p
  printf 'export PATH=%q:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n' "$run/bin"
  printf 'preload=%q\nmodules=%q\n' "$preload" "$modules"
  printf 'cd %q || exit 125\n' "$PWD"
  printf 'command=('
  printf '%q ' "$@"
  printf ')\n'
} >"$run/job.sh"
cp "$here/uml_init.sh" "$run/init.sh"

# A signal to this script ends the guest as well. `timeout` makes a process group of its own, so a ^C
# does not reach it by itself.
wait_for_child() {
  local child=$! status
  trap 'kill "$child" 2>/dev/null' INT TERM
  wait "$child"
  status=$?
  kill -0 "$child" 2>/dev/null && wait "$child"
  trap - INT TERM
  return $status
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
# `processor` to one that no other guest has, kept by fd 5 until this script ends; to all if there is none.
own_processor() {
  local all part each
  all=$(taskset -cp $$ | sed 's/.*: //')
  for part in ${all//,/ }; do
    for each in $(seq "${part%-*}" "${part#*-}"); do
      processor=$each
      exec 5>"/tmp/ipvs-guest-processor-$each"
      flock -n 5 && return
    done
  done
  processor=$all
}

in_guest() {
  # The guest binds its modules over this; a host without modules has no such folder.
  mkdir -p /lib/modules 2>/dev/null
  # Output has a serial line of its own: the console is for the kernel.
  local processor
  own_processor
  TMPDIR=$(memory_folder) timeout -k 5 "$seconds" taskset -c "$processor" \
    env LD_PRELOAD="$("$here/uml_preload.sh" "$run")" linux.uml mem="$memory" \
    root=/dev/root rootfstype=hostfs rootflags=/ rw init="$run/init.sh" quiet \
    con=null con0=null,fd:1 ssl=null ssl0=null,fd:4 uml_dir="$run" umid=guest \
    IPVS_GUEST_RUN="$run" IPVS_GUEST_KIND=uml \
    4>&1 5>&- >"$run/console.log" 2>&1 </dev/null &
  wait_for_child
  local status=$?
  # It ends the process that wants more, by SIGKILL, whatever the guest's memory.
  grep -q 'vm.max_map_count has been reached' "$run/console.log" &&
    echo "uml_run.sh: a process of the guest had more mappings than this host's vm.max_map_count allows" >&2
  if [ -s "$run/exit" ]; then
    return "$(cat "$run/exit")"
  fi
  if [ $status -eq 124 ] || [ $status -eq 137 ]; then
    echo "uml_run.sh: no answer after $seconds s: $*" >&2
    status=124
  else
    echo "uml_run.sh: the guest ended without an answer (status $status); its console:" >&2
    status=125
  fi
  tail -40 "$run/console.log" | tr -d '\r' >&2
  return $status
}

if [ "${IPVS_PROXIER_KERNEL:-}" != host ] && command -v linux.uml >/dev/null; then
  in_guest "$@"
elif [ $modules = yes ] && host_has_ipvs; then
  in_host_namespace
else
  echo "uml_run.sh: neither linux.uml (package user-mode-linux) nor IPVS in this kernel" >&2
  exit 77
fi
