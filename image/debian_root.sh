#!/bin/bash
# A small Debian 12 in a folder, with the package sources and the trust of this machine; nothing if it
# is there.
#
#   debian_root.sh FOLDER
set -eu
root=$1
[ -e "$root/etc/debian_version" ] && [ -e "$root.ready" ] && exit 0
rm -rf "$root"
mkdir -p "$root"
mirror=$(apt-get indextargets 'Created-By: Packages' 'Codename: bookworm' --format '$(REPO_URI)' | head -1)
[ -n "$mirror" ] || { echo "debian_root.sh: no package source of bookworm is configured" >&2; exit 1; }
log=$root.log
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
# The security updates too, and what apt must know to reach them.
rm -rf "$root/etc/apt/sources.list"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} /etc/apt/apt.conf.d/*; do
  [ -f "$file" ] && grep -qsE 'bookworm|^Acquire' "$file" && install -D -m 644 "$file" "$root$file"
done
cp -r /usr/share/keyrings "$root/usr/share/"
cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
# Nothing is started in there.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
chroot "$root" apt-get update -q >>"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
touch "$root.ready"
