#!/bin/bash
# The root that image/build_root.sh made: its programs start, nothing else is in it, and it does in a
# scratch kernel what the DaemonSet asks of it.
#
#   image.sh IMAGE_ROOT
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/kernel/cases.sh"
root=$(realpath "$1")

starts() { chroot "$root" "/usr/sbin/$1" --version | grep -q "^$1 [0-9]"; }
modprobe_starts() { chroot "$root" /usr/sbin/modprobe --version | grep -q ^kmod; }
holds_three_programs() {
  diff <(find "$root"/usr/{bin,sbin,libexec} -type f -o -type l 2>/dev/null | sed "s|^$root||" | sort) - <<'END'
/usr/sbin/ipvs-proxier
/usr/sbin/ipvsctl
/usr/sbin/modprobe
END
}
all_else_is_libraries() {
  local file other=0
  while read -r file; do
    case $(head -c 4 "$file" | od -An -c | tr -d ' ') in
      177ELF) [[ $file == *.so* || $file == "$root"/usr/sbin/* ]] || { echo "$file"; other=1; } ;;
      '#!'*) echo "$file"; other=1 ;;
    esac
  done < <(find "$root" -type f -not -path '*/usr/share/doc/*')
  return $other
}
# Whoever gets a library gets the words of its authors.
has_licences() {
  local package
  [ "$(wc -l <"$root/usr/share/doc/packages")" -gt 10 ] || return 1
  while read -r package _; do
    [ -s "$root/usr/share/doc/$package/copyright" ] || { echo "$package"; return 1; }
  done <"$root/usr/share/doc/packages"
}
nothing_is_of_others() { ! find "$root" -not -user root -o -perm /o+w -not -type l -not -path "$root/tmp" | grep .; }
in_the_scratch_kernel() { "$here/kernel/uml_run.sh" --no-preload --timeout 300 "$here/kernel/image_test.sh" "$root"; }

check "the daemon starts" starts ipvs-proxier
check "ipvsctl starts" starts ipvsctl
check "modprobe starts" modprobe_starts
check "there are no other programs" holds_three_programs
check "nor scripts" all_else_is_libraries
check "the licences of the libraries are there" has_licences
check "all is root's" nothing_is_of_others
check "it does its work in the scratch kernel" in_the_scratch_kernel
finish
