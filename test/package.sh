#!/bin/bash
# What the Debian package holds, made of two programs as they are built for tests: nothing but that,
# stripped; a unit that systemd finds right, with few rights; a configuration that the daemon takes.
#
#   package.sh PATH_OF_IPVS_PROXIER PATH_OF_IPVSCTL
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/kernel/cases.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
root=$work/root
unit=lib/systemd/system/ipvs-proxier.service

make_tree() {
  install -D -t "$work/tree/usr/sbin" "$@" &&
    install -D -t "$work/tree/usr/share/man/man8" "$here"/../docs/man/*.8
}
make_package() { "$here/../package/deb.sh" "$work/tree" "$work/$1" >"$work/$1.path"; }
unpack() { dpkg-deb -x "$(cat "$work/one.path")" "$root" && dpkg-deb -e "$(cat "$work/one.path")" "$root/DEBIAN"; }

holds_its_files() {
  diff <(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P %m\n' | sort) - <<'END'
etc/ipvs-proxier/config.yaml 644
lib/systemd/system/ipvs-proxier.service 644
usr/sbin/ipvs-proxier 755
usr/sbin/ipvsctl 755
usr/share/bash-completion/completions/ipvsctl 644
usr/share/doc/ipvs-proxier/changelog.gz 644
usr/share/doc/ipvs-proxier/copyright 644
usr/share/fish/vendor_completions.d/ipvsctl.fish 644
usr/share/man/man8/ipvs-proxier.8.gz 644
usr/share/man/man8/ipvsctl.8.gz 644
usr/share/zsh/vendor-completions/_ipvsctl 644
END
}
belongs_to_root() { ! dpkg-deb -c "$(cat "$work/one.path")" | grep -v ' root/root '; }
is_stripped() { ! readelf -SW "$root"/usr/sbin/* | grep -E '\.(debug|symtab)'; }
sums_fit() { (cd "$root" && md5sum -c --quiet DEBIAN/md5sums); }
is_conffile() { [ "$(cat "$root/DEBIAN/conffiles")" = /etc/ipvs-proxier/config.yaml ]; }
# Each library that a program names is in a package that it depends on.
depends_on_libraries() {
  local library package multiarch
  multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
  dpkg-deb -f "$(cat "$work/one.path")" Depends | tr ',' '\n' | awk '{ print $1 }' >"$work/depends"
  readelf -dW "$root"/usr/sbin/* | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u >"$work/needed"
  [ -s "$work/needed" ] || return 1
  while read -r library; do
    package=$(dpkg-query -S "*/$multiarch/$library" | cut -d: -f1 | sort -u | head -1)
    # Itself, or a name under which it also goes.
    { echo "$package"; dpkg-query -W -f '${Provides}\n' "$package" | tr ',' '\n' | tr -d ' ' | sed 's/(.*//'; } |
      grep -qxF -f - "$work/depends" || {
      echo "$library: $package is not among $(tr '\n' ' ' <"$work/depends")"
      return 1
    }
  done <"$work/needed"
}
is_reproducible() { sleep 1 && make_package two && cmp "$(cat "$work/one.path")" "$(cat "$work/two.path")"; }
scripts_parse() {
  local script
  for script in postinst prerm postrm; do sh -n "$root/DEBIAN/$script" || return 1; done
}

# Of the unit alone: what it needs of the system is a stand-in.
unit_is_right() {
  local told
  mkdir -p "$root/usr/bin"
  for stand_in in sysinit basic shutdown network multi-user; do
    printf '[Unit]\nDescription=x\n' >"$root/lib/systemd/system/$stand_in.target"
  done
  printf '#!/bin/sh\n' >"$root/usr/bin/touch" && chmod 755 "$root/usr/bin/touch"
  # Whether the pages that it names can be shown is a matter of this machine.
  told=$(systemd-analyze verify --man=no --root="$root" "/$unit" 2>&1)
  local status=$?
  echo "$told"
  [ $status = 0 ] && [ -z "$told" ]
}
a_wrong_unit_is_not() {
  sed 's/^ProtectHome=.*/ProtectHome=perhaps/' "$root/$unit" >"$root/lib/systemd/system/wrong.service"
  systemd-analyze verify --man=no --root="$root" /lib/systemd/system/wrong.service 2>&1 |
    grep -q 'wrong.service:.*Failed to parse'
}
# systemd's own figure: 10 is exposed, 0 is not. Half of what is left is the host's network.
exposes_little() {
  systemd-analyze security --offline=yes --root="$root" --threshold=25 "/$unit" >"$work/security"
  local status=$?
  tail -1 "$work/security"
  return $status
}
has_the_rights_of_the_daemon_set() {
  local of_unit of_daemon_set
  of_unit=$(sed -n 's/^CapabilityBoundingSet=//p' "$root/$unit" | tr ' ' '\n' | sort)
  of_daemon_set=$(sed -n 's/^ *add: \[\(.*\)\]/\1/p' \
    "$here/../manifests/daemon_set/daemon_set.yaml" | tr -d ' ' | tr ',' '\n' | sed 's/^/CAP_/' | sort)
  [ -n "$of_unit" ] && [ "$of_unit" = "$of_daemon_set" ]
}
takes_its_configuration() {
  local said
  said=$("$root/usr/sbin/ipvs-proxier" --config="$root/etc/ipvs-proxier/config.yaml" \
    --hostname-override=x --write-config-to="$work/effective" 2>&1) || return 1
  echo "$said"
  [ -s "$work/effective" ] && ! grep -v 'wrote the configuration' <<<"$said"
}
knows_the_flags_of_the_unit() {
  local flag known
  known=$("$root/usr/sbin/ipvs-proxier" --help)
  grep -o -- ' --[a-z-]*' "$root/$unit" | sort -u >"$work/flags"
  [ -s "$work/flags" ] || return 1
  while read -r flag; do
    grep -q -- "$flag " <<<"$known" || { echo "unknown: $flag"; return 1; }
  done <"$work/flags"
}

make_tree "$@" || exit 1
check "the package is made" make_package one
check "(unpacked)" unpack
check "it holds its files" holds_its_files
check "all of root" belongs_to_root
check "the programs are stripped" is_stripped
check "the sums fit" sums_fit
check "the configuration is the administrator's" is_conffile
check "it depends on the libraries of the programs" depends_on_libraries
check "the scripts parse" scripts_parse
check "the same again is the same, byte for byte" is_reproducible
check "the daemon takes the configuration without a word" takes_its_configuration
check "it knows the flags of the unit" knows_the_flags_of_the_unit
check "the unit has the rights of the DaemonSet" has_the_rights_of_the_daemon_set
check "systemd finds the unit right" unit_is_right
check "(and another one wrong)" a_wrong_unit_is_not
check "the unit exposes little" exposes_little
tail -1 "$work/security"
finish
