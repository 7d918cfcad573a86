#!/bin/bash
# qemu_run.sh keeps its promises: output, exit statuses, modules that are left out. Runs on the host.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/cases.sh"

passes_on() {
  local output
  output=$(printf_format='%s,' "$here/qemu_run.sh" --no-preload --timeout 100 \
    bash -c 'printf "$printf_format" "$@"; lsmod | grep -w ip_vs; exit 7' bash 'a b' '*')
  [ $? = 7 ] && [ "$output" = 'a b,*,' ]
}
times_out() {
  "$here/qemu_run.sh" --timeout 15 sleep 100
  [ $? = 124 ]
}
is_without() {
  # ip_tables is gone, and iptable_nat that needs it; x_tables and its xt_ipvs stay.
  "$here/qemu_run.sh" --timeout 100 --without=ip_tables \
    bash -c '! modprobe -q ip_tables && ! modprobe -q iptable_nat && modprobe nf_tables && lsmod | grep -w xt_ipvs'
}
has_no_modules() { "$here/qemu_run.sh" --timeout 100 --no-modules bash -c '! modprobe -q ip_vs'; }
knows_no_such_kernel() {
  "$here/qemu_run.sh" --kernel=2.4 true
  [ $? = 125 ]
}

check "output, arguments, environment and exit status are the command's" passes_on
check "a command that does not end costs its time and 124" times_out
check "a module can be left out" is_without
check "without modules there are none" has_no_modules
check "a kernel that there is not is 125" knows_no_such_kernel
finish
