# To be sourced by uml_run.sh and qemu_run.sh: what starting a guest and hearing its answer have in common.
# The script's own options are for its function `own_option`, which sets `taken` to the number of
# arguments that it took, 0 for what it does not know.
program=$(basename "$0")
seconds=1740
modules=yes
preload=yes
without=()

# usage STATUS: the comment at the head of the script.
usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
  exit "$1"
}

# parse_options ARGUMENT...: sets the variables above, `memory` and `command`.
parse_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --mem) memory=$2; shift 2 ;;
      --timeout) seconds=$2; shift 2 ;;
      --no-modules) modules=no; preload=no; shift ;;
      --no-preload) preload=no; shift ;;
      --) shift; break ;;
      -*)
        taken=0
        own_option "$@"
        [ $taken -gt 0 ] || { echo "$program: unknown option $1" >&2; exit 2; }
        shift $taken
        ;;
      *) break ;;
    esac
  done
  [ $# -gt 0 ] || usage 2
  command=("$@")
}

# make_run_folder: one folder per run, `run`: what the guest is told, and what it answers.
make_run_folder() {
  run=$(mktemp -d "${TMPDIR:-/tmp}/ipvs-guest.XXXXXX") || exit 125
  trap 'rm -rf "$run"' EXIT
  # Only the legacy iptables speak the tables that we write.
  mkdir "$run/bin"
  local name
  for name in {ip,ip6}tables{,-save,-restore}; do
    ln -s "$(command -v xtables-legacy-multi || echo /usr/sbin/xtables-legacy-multi)" "$run/bin/$name"
  done
  {
    export -p
    printf 'export PATH=%q:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n' "$run/bin"
    printf 'preload=%q\nmodules=%q\nwithout=%q\n' "$preload" "$modules" "${without[*]}"
    printf 'cd %q || exit 125\n' "$PWD"
    printf 'command=('
    printf '%q ' "${command[@]}"
    printf ')\n'
  } >"$run/job.sh"
  cp "$here/guest_init.sh" "$run/init.sh"
  # The guest mounts its modules over this; a host without modules has no such folder.
  mkdir -p /lib/modules 2>/dev/null
}

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

# exit_status STATUS: what the command in the guest answered, after the guest itself ended with STATUS.
exit_status() {
  local status=$1
  if [ -s "$run/exit" ]; then
    return "$(cat "$run/exit")"
  fi
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "$program: no answer after $seconds s: ${command[*]}" >&2
    status=124
  else
    echo "$program: the guest ended without an answer (status $status); its console:" >&2
    status=125
  fi
  tail -40 "$run/console.log" | tr -d '\r' >&2
  return $status
}
