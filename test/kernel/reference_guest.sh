# To be sourced by the tests that compare with the reference state: the guest in which it was made,
# comparing, and waiting for a daemon.
# Its first network namespace, for some of the sysctls exist only there.

set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
shop=$here/../reference/shop

reference_guest() {
  ip link add vec0 type dummy &&
    ip link set vec0 up &&
    ip addr add 10.200.0.2/24 dev vec0 &&
    ip addr add fd00:200::2/64 dev vec0 nodad
}

# The kernel against the state in $reference; its dump is left in $work.
matches_reference() {
  rm -rf "$work/dump"
  "$here/kernel_dump.sh" "$work/dump"
  "$here/kernel_compare.sh" "$reference/kernel" "$work/dump"
}

# eventually COMMAND...: true as soon as it is, false after a minute, with what it said last and what
# the daemon did ($work/log).
eventually() {
  local i
  for ((i = 0; i < 120; i++)); do
    "$@" >"$work/last" 2>&1 && return 0
    sleep 0.5
  done
  cat "$work/last" "$work/log"
  return 1
}

healthy() {
  exec 3<>/dev/tcp/127.0.0.1/10256 || return 1
  printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
  grep -q '^HTTP/1.. 200' <&3
}
