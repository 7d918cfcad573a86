#!/bin/bash
# The steps of Containerfile without a container: a Debian 12 by debootstrap, from where this machine
# has its packages, the sources copied into it, build_root.sh run in it.
#
#   in_chroot.sh FOLDER    leaves the image's root in FOLDER/image-root
set -eu
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath -m "$1")
base=$folder/base
started=$SECONDS

"$here/debian_root.sh" "$base"
rm -rf "$folder/image-root" "$base/source" "$base/image-root"
mkdir "$base/source"
(cd "$here/.." && git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- -cf -) | tar -xf - -C "$base/source"
trap 'umount "$base/proc"' EXIT
mount -t proc proc "$base/proc"
chroot "$base" /source/image/build_root.sh /image-root
mv "$base/image-root" "$folder/image-root"
echo "==> $folder/image-root: $(du -sm "$folder/image-root" | cut -f1) MB," \
  "$(find "$folder/image-root" -type f | wc -l) files, after $((SECONDS - started)) s"
