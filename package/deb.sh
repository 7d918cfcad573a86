#!/bin/bash
# Makes a Debian package of what is installed below a folder.
#
#   deb.sh TREE FOLDER    TREE: of `meson install --destdir`; the package goes into FOLDER
#
# Prints the path of the package.
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022

version=$(dpkg-parsechangelog -l "$here/changelog" -S Version)
told=$("$tree/usr/sbin/ipvs-proxier" --version)
[ "$told" = "ipvs-proxier $version" ] || {
  echo "deb.sh: package/changelog says $version, the program $told" >&2
  exit 1
}
# Files that are made here are as old as the last entry: the same sources give the same package.
SOURCE_DATE_EPOCH=$(dpkg-parsechangelog -l "$here/changelog" -S Timestamp)
export SOURCE_DATE_EPOCH

install -d "$root/DEBIAN"
for program in ipvs-proxier ipvsctl; do
  install -D -m 755 "$tree/usr/sbin/$program" "$root/usr/sbin/$program"
  strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/sbin/$program"
  install -d "$root/usr/share/man/man8"
  gzip -9n <"$tree/usr/share/man/man8/$program.8" >"$root/usr/share/man/man8/$program.8.gz"
done
install -D -m 644 "$here/ipvs-proxier.service" "$root/lib/systemd/system/ipvs-proxier.service"
install -D -m 644 "$here/config.yaml" "$root/etc/ipvs-proxier/config.yaml"
install -D -m 644 "$here/copyright" "$root/usr/share/doc/ipvs-proxier/copyright"
gzip -9n <"$here/changelog" >"$root/usr/share/doc/ipvs-proxier/changelog.gz"
completion() { mkdir -p "$(dirname "$root/$2")" && "$tree/usr/sbin/ipvsctl" completion "$1" >"$root/$2"; }
completion bash usr/share/bash-completion/completions/ipvsctl
completion zsh usr/share/zsh/vendor-completions/_ipvsctl
completion fish usr/share/fish/vendor_completions.d/ipvsctl.fish
for script in postinst prerm postrm; do
  install -m 755 "$here/$script" "$root/DEBIAN/$script"
done
echo /etc/ipvs-proxier/config.yaml >"$root/DEBIAN/conffiles"

# dpkg-shlibdeps wants to stand in a source package.
mkdir "$work/debian"
printf 'Source: ipvs-proxier\n\nPackage: ipvs-proxier\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O "$root"/usr/sbin/* | sed 's/^shlibs:Depends=//')
cat >"$root/DEBIAN/control" <<END
Package: ipvs-proxier
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: $(dpkg-parsechangelog -l "$here/changelog" -S Maintainer)
Installed-Size: $(du -sk --exclude DEBIAN "$root" | cut -f1)
Depends: kmod, init-system-helpers (>= 1.51), $libraries
Suggests: ipset, iptables, ipvsadm
Section: net
Priority: optional
Description: Kubernetes Services by the kernel's IPVS
 A node daemon that programs the kernel with the Services of a Kubernetes
 cluster, in the place of kube-proxy's IPVS mode, and ipvsctl, which shows
 what is there.
 .
 This package is for nodes on which it runs as a systemd service; the usual
 way is a DaemonSet.
END
(cd "$root" && find etc lib usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
package=$folder/ipvs-proxier_${version}_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group --build "$root" "$package" >&2
echo "$package"
