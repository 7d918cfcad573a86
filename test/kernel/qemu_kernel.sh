#!/bin/bash
# A kernel of Debian for qemu_run.sh in a folder: `vmlinuz`, `initrd` and `modules/`; nothing if it is
# there. The packages are fetched and unpacked, not installed, and apt has a configuration of its own:
# nothing on this host changes. To get a newer one, remove the folder.
#
#   qemu_kernel.sh stock|6.12|newest FOLDER
set -eu
which=$1
folder=$2
mkdir -p "$folder"
kept=$(realpath "$folder")
exec 6>"$kept/lock"
flock 6
[ -e "$kept/ready" ] && exit 0
find "$kept" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf {} +
# apt and modprobe want a path without blanks.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# apt_of COMMAND ARGUMENT...: a command of apt that knows the sources of this kernel alone, and nothing
# of what is installed here.
apt_of() {
  "$1" -q -o Dir::State="$folder/apt/state" -o Dir::State::status="$folder/apt/status" \
    -o Dir::Cache="$folder/apt/cache" -o Dir::Etc::sourcelist="$folder/apt/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::preferences=/dev/null \
    -o APT::Sandbox::User=root -o Acquire::Languages=none "${@:2}"
}

# source_line MIRROR SUITE
source_line() { echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $1 $2 main"; }

# mirror_of SUITE: where this host has that suite of Debian 12 from.
mirror_of() {
  apt-get indextargets 'Created-By: Packages' "Codename: $1" 'Component: main' --format '$(REPO_URI)' | head -1
}

mkdir -p "$folder"/apt/{state/lists/partial,cache/archives/partial} "$folder/debs"
: >"$folder/apt/status"
mirror=$(mirror_of bookworm)
[ -n "$mirror" ] || { echo "qemu_kernel.sh: no package source of bookworm is configured" >&2; exit 1; }
case $which in
  stock)
    source_line "$mirror" bookworm
    security=$(mirror_of bookworm-security)
    [ -z "$security" ] || source_line "$security" bookworm-security
    ;;
  6.12) source_line "$mirror" bookworm-backports ;;
  newest) source_line "$mirror" unstable; source_line "$mirror" trixie-backports ;;
  *) echo "qemu_kernel.sh: no kernel $which" >&2; exit 2 ;;
esac >"$folder/apt/sources.list"
apt_of apt-get update >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }

# The metapackage of the highest version names the image; newer ones are split in three.
architecture=$(dpkg --print-architecture)
version=$(apt_of apt-cache madison "linux-image-$architecture" | awk '{ print $3 }' | sort -V | tail -1)
release=$(apt_of apt-cache show "linux-image-$architecture=$version" |
  sed -n 's/^Depends:.*linux-image-\([0-9][^ ,]*\).*/\1/p')
[ -n "$release" ] || { echo "qemu_kernel.sh: no package of the kernel $which" >&2; exit 1; }
mapfile -t packages < <(apt_of apt-cache pkgnames linux- | grep -xF -e "linux-image-$release" \
  -e "linux-binary-$release" -e "linux-modules-$release" -e "linux-base-$release")
(cd "$folder/debs" && apt_of apt-get download "${packages[@]}") >"$folder/log" 2>&1 ||
  { cat "$folder/log" >&2; exit 1; }
for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done

find "$folder/root" -name "vmlinuz*" -exec cp {} "$folder/vmlinuz" \;
# What a network and this guest need: a tenth of all, so that depmod is quick about it.
modules=$folder/modules/lib/modules/$release
mkdir -p "$modules"
cd "$(find "$folder/root" -type d -path "*lib/modules/$release")"
cp modules.builtin modules.builtin.modinfo modules.order "$modules/"
find kernel -name '*.ko*' | grep -E '^kernel/(net|lib|crypto|arch|fs/(9p|netfs|fscache|overlayfs)|drivers/(virtio|net|char))/' |
  grep -vE '^kernel/drivers/net/(ethernet|wireless)/' | xargs cp --parents -t "$modules"
cd "$folder"
depmod -b "$folder/modules" "$release"

# The initial system mounts the host's files by 9p over virtio, and leaves the rest to guest_init.sh.
initrd=$folder/initrd.root
mkdir -p "$initrd"/{bin,modules,proc,sys,dev,new}
cp "$(command -v busybox)" "$initrd/bin/busybox"
mapfile -t needed < <(for name in virtio_pci 9pnet_virtio 9p overlay virtio_console virtio_rng; do
  modprobe -d "$folder/modules" -S "$release" --show-depends "$name"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }')
for file in "${needed[@]}"; do
  name=$(basename "$file" .xz)
  case $file in
    *.xz) xz -dc "$file" >"$initrd/modules/$name" ;;
    *) cp "$file" "$initrd/modules/$name" ;;
  esac
  echo "$name" >>"$initrd/modules/order"
done
cat >"$initrd/init" <<'END'
#!/bin/busybox sh
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
for module in $($bb cat /modules/order); do $bb insmod "/modules/$module"; done
$bb mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 root /new || $bb poweroff -f
for folder in proc sys dev; do $bb mount --move /$folder /new/$folder; done
exec $bb switch_root /new /bin/bash "$IPVS_GUEST_RUN/init.sh"
END
chmod 755 "$initrd/init"
(cd "$initrd" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$folder/initrd"
echo "$release" >"$folder/release"
mv "$folder"/{vmlinuz,initrd,modules,release} "$kept/"
touch "$kept/ready"
