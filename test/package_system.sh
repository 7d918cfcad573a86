#!/bin/bash
# The package in a fresh Debian 12 made by debootstrap: apt brings what it depends on, it starts, its
# unit lets it do what it does, and a removal leaves nothing. Takes some minutes.
#
#   package_system.sh PACKAGE.deb
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/kernel/cases.sh"
package=$(realpath "$1")
folder=$here/../build-system
mkdir -p "$folder"
system=$folder/system
trap 'umount "$system/proc" 2>/dev/null; rm -rf "$system"' EXIT

fresh_system() {
  "$here/../image/debian_root.sh" "$folder/base" && rm -rf "$system" && cp -a "$folder/base" "$system" &&
    mkdir -p "$system/usr/lib/modules" && mount -t proc proc "$system/proc" &&
    inside apt-get -o Dpkg::Use-Pty=0 install -y -q --no-install-recommends \
      systemd systemd-sysv iproute2
}
inside() { chroot "$system" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
# All but what apt and dpkg keep for themselves.
files() {
  (cd "$system" && find . \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o \
    -path ./var/cache -o -path ./var/log -o -path ./tmp -o -path ./run \) -prune -o -printf '%p %m %l\n' | sort)
}
installs() {
  files >"$folder/files-before"
  cp "$package" "$system/tmp/" && inside apt-get -o Dpkg::Use-Pty=0 install -y -q --no-install-recommends "/tmp/${package##*/}"
}
starts() { inside "$1" --version | grep -q "^$1 [0-9]"; }
is_not_enabled() { ! inside systemctl is-enabled ipvs-proxier; }
can_be_enabled() { inside systemctl enable ipvs-proxier && inside systemctl is-enabled ipvs-proxier; }
unit_is_right() {
  local told
  told=$(inside systemd-analyze verify --man=no ipvs-proxier.service 2>&1)
  local status=$?
  echo "$told"
  # Only this unit is asked about: others complain about what a chroot lacks.
  [ $status = 0 ] && ! grep ipvs-proxier <<<"$told"
}
removal_keeps_configuration() {
  echo '# mine' >>"$system/etc/ipvs-proxier/config.yaml"
  inside dpkg -r ipvs-proxier && grep -q '# mine' "$system/etc/ipvs-proxier/config.yaml" &&
    [ ! -e "$system/usr/sbin/ipvs-proxier" ]
}
purge_leaves_nothing() {
  inside dpkg -P ipvs-proxier && ! find "$system" -path "$system/proc" -prune -o \
    \( -name '*ipvs-proxier*' -o -name 'ipvsctl*' \) -not -path "*/tmp/*" -print | grep . &&
    inside apt-get -o Dpkg::Use-Pty=0 autoremove --purge -y -q && diff "$folder/files-before" <(files) | head -50 | tee "$folder/left" &&
    [ ! -s "$folder/left" ]
}
in_the_scratch_kernel() {
  umount "$system/proc"
  "$here/kernel/uml_run.sh" --no-preload --timeout 300 "$here/kernel/package_test.sh" "$system" \
    "$folder/syscalls"
  local status=$?
  mount -t proc proc "$system/proc"
  return $status
}
boots() {
  local status
  umount "$system/proc"
  "$here/package_boot.sh" "$system" "$package"
  status=$?
  mount -t proc proc "$system/proc"
  return $status
}
# What it was seen to call against what the unit lets it.
calls_what_it_may() {
  python3 - "$folder/syscalls" "$system/lib/systemd/system/ipvs-proxier.service" <<'END'
import re, subprocess, sys
def members(group):
    if not group.startswith("@"):
        return {group}
    text = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True,
                          check=True).stdout
    found = set()
    for word in re.findall(r"^ +([@\w-]+)$", text, re.M):
        found |= members(word)
    return found
allowed = set()
for line in re.findall(r"^SystemCallFilter=(.*)$", open(sys.argv[2]).read(), re.M):
    named = set().union(*(members(group) for group in line.lstrip("~").split()))
    allowed = allowed - named if line.startswith("~") else allowed | named
called = set(open(sys.argv[1]).read().split())
print(sorted(called - allowed), len(called), "of", len(allowed))
sys.exit(0 if len(called) > 40 and called <= allowed else 1)
END
}

check "(a fresh system)" fresh_system
check "apt installs it" installs
check "the daemon starts" starts ipvs-proxier
check "ipvsctl starts" starts ipvsctl
check "the service waits for its configuration" is_not_enabled
check "it can be enabled" can_be_enabled
check "systemd finds the unit right" unit_is_right
check "it does its work in the scratch kernel" in_the_scratch_kernel
check "systemd of a booted guest runs it" boots
check "the unit lets it call what it calls" calls_what_it_may
check "a removal keeps the configuration" removal_keeps_configuration
check "a purge leaves nothing" purge_leaves_nothing
systemd-analyze security --offline=yes "$here/../package/ipvs-proxier.service" | tail -1
finish
