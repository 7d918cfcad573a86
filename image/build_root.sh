#!/bin/bash
# The steps that make the image, in a fresh Debian 12 with these sources: builds the programs and puts
# them with what they need, and nothing else, into a folder that becomes the image's root. There is no
# shell in it. Containerfile runs this, and in_chroot.sh where no base image can be had.
#
#   build_root.sh FOLDER
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$1

# copy FILE: with its path behind all links, so that /lib is /usr/lib, and links to it.
copy() {
  local path
  path=$(realpath -e "$(dirname "$1")")/$(basename "$1")
  [ -e "$root$path" ] || install -D -m "$(stat -L -c %a "$1")" "$1" "$root$path"
}
libraries_of() { ldd "$@" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\s*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p'; }

mkdir -p "$root"/{proc,sys,dev,tmp,run,var,etc/ipvs-proxier,usr/lib/modules,usr/bin,usr/sbin,usr/lib64}
ln -sfn ../run "$root/var/run"
for folder in bin sbin lib lib64; do ln -sfn "usr/$folder" "$root/$folder"; done
chmod 1777 "$root/tmp"

./dev install "$root"
rm -rf "$root/usr/share/man"
# The init container loads modules. It has one name more than the program behind it.
apt-get -o Dpkg::Use-Pty=0 install -y -q --no-install-recommends kmod >/dev/null
install -m 755 "$(realpath /usr/sbin/modprobe)" "$root/usr/sbin/modprobe"
libraries_of "$root"/usr/sbin/* | sort -u | while read -r library; do copy "$library"; done
# What terminals can do, for `ipvsctl top`.
cp -rL /lib/terminfo "$root/usr/lib/"
echo 'root:x:0:0:root:/:/usr/sbin/nologin' >"$root/etc/passwd"
echo 'root:x:0:' >"$root/etc/group"
# Names of API servers: /etc/hosts, which the node gives to a pod, before its name servers.
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"

# What their licences ask of who passes them on.
install -D -m 644 LICENSE package/copyright -t "$root/usr/share/doc/ipvs-proxier"
{ libraries_of "$root"/usr/sbin/*; echo /usr/sbin/modprobe; } | sort -u | while read -r file; do
  dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "$(realpath "$file")" 2>/dev/null ||
    dpkg-query -S "/usr$file" 2>/dev/null || dpkg-query -S "${file#/usr}"
done | sed 's/[:,].*//' | sort -u | while read -r package; do
  install -D -m 644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
  dpkg-query -W -f '${Package} ${Version}\n' "$package" >>"$root/usr/share/doc/packages"
done
