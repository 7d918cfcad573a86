# To be sourced by the tests that compare with the reference state: the guest in which it was made.
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
