#!/bin/bash
# Boots a copy of a Debian in which the package is installed, with its own systemd, as a guest of User
# Mode Linux, and lets package_booted.sh try the service there.
#
#   package_boot.sh SYSTEM_ROOT PACKAGE.deb
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
run=$(mktemp -d)
root=$run/root
trap 'rm -rf "$run"' EXIT
units=$root/etc/systemd/system

cp -a --one-file-system "$1" "$root" || exit 1
cp "$2" "$root/package.deb"
# Here things may start.
rm -f "$root/usr/sbin/policy-rc.d" "$root/result"
mkdir -p "$root/usr/lib/modules" "$root/objects" "$units/multi-user.target.wants" \
  "$units/ipvs-proxier.service.d" "$root/test"
cp -r /usr/lib/uml/modules/. "$root/usr/lib/modules/"
cp "$here"/reference/shop/objects/*.json "$root/objects/"
cp "$here/package_booted.sh" "$here/kernel/cases.sh" "$root/test/"
: >"$root/etc/fstab"
# Files instead of an API server; all else is the package's.
cat >"$units/ipvs-proxier.service.d/files.conf" <<'END'
[Service]
ExecStart=
ExecStart=/usr/sbin/ipvs-proxier --config=/etc/ipvs-proxier/config.yaml --manifests=/objects --hostname-override=kp
END
cat >"$units/try.service" <<'END'
[Unit]
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/test/package_booted.sh
END
ln -s ../try.service "$units/multi-user.target.wants/try.service"
ln -sf /lib/systemd/system/multi-user.target "$units/default.target"

TMPDIR=$run timeout -k 5 400 env LD_PRELOAD="$("$here/kernel/uml_preload.sh" "$run")" \
  linux.uml mem=512M root=/dev/root rootfstype=hostfs rootflags="$root" rw \
  init=/lib/systemd/systemd con=null con0=null,fd:1 ssl=null uml_dir="$run" umid=guest \
  >"$run/console" 2>&1 </dev/null
cat "$root/result" || { tail -40 "$run/console"; exit 1; }
grep -qE '^test cases: [1-9].* \| 0 failed$' "$root/result"
