#!/bin/bash
# Compares two folders of kernel_dump.sh and shows a unified difference for each file that differs:
# "-" is expected and missing, "+" is there and was not expected. Exit status 1 if any does.
#
#   kernel_compare.sh EXPECTED ACTUAL
#
# The rules of KUBE-IPVS-OUT-FILTER have no order of their own.
set -u
export LC_ALL=C
expected=$1
actual=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# The lines of the free chain stay together, so sorting them in place is enough.
normalise() {
  awk '
    function flush_free(   i, j, swap) {
      for (i = 1; i < n; i++)
        for (j = i + 1; j <= n; j++)
          if (free[j] < free[i]) { swap = free[i]; free[i] = free[j]; free[j] = swap }
      for (i = 1; i <= n; i++) print free[i]
      n = 0
    }
    /^-A KUBE-IPVS-OUT-FILTER / { free[++n] = $0; next }
    { flush_free(); print }
    END { flush_free() }' "$1"
}

# Reads both itself: a process costs the guest more than the comparison does.
same() {
  local one other
  IFS= read -r -d '' one <"$1"
  IFS= read -r -d '' other <"$2"
  [ "$one" = "$other" ]
}

status=0
for name in ipvs ipset-members ipset-headers iptables ip6tables addrs link sysctl timeouts; do
  for side in "$expected" "$actual"; do
    [ -f "$side/$name.txt" ] || { echo "$side/$name.txt is missing"; exit 1; }
  done
  same "$expected/$name.txt" "$actual/$name.txt" && continue
  normalise "$expected/$name.txt" >"$work/expected"
  normalise "$actual/$name.txt" >"$work/actual"
  diff -u --label "$name.txt: expected" --label "$name.txt: in the kernel" \
    "$work/expected" "$work/actual" || status=1
done
exit $status
