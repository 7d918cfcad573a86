#!/bin/bash
# Prints the path of a User Mode Linux kernel that has nf_tables, flowtables and all of IPVS built in, which
# Debian's package user-mode-linux lacks. With --build it is built first, from Debian's package
# linux-source-6.12 and uml.config beside this script, unless that was done before. It is kept beside the
# compiler cache, under the hash of what it is made of: some seven minutes of two processors, once.
set -eu

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=/usr/src/linux-source-6.12.tar.xz
config=$here/uml.config

name=$( (dpkg-query -W -f '${Version}' linux-source-6.12 2>/dev/null || true; cat "$config") | sha256sum | cut -c1-16)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/ipvs-proxier
kernel=$folder/linux-uml-$name

build() {
  local tree
  tree=$(mktemp -d "${TMPDIR:-/tmp}/uml-kernel.XXXXXX")
  # shellcheck disable=SC2064  # this folder, whatever the variable is later
  trap "rm -rf '$tree'" EXIT
  tar xf "$source" -C "$tree" --strip-components=1
  cd "$tree"
  make ARCH=um tinyconfig
  scripts/kconfig/merge_config.sh -m .config "$config"
  make ARCH=um olddefconfig
  local symbol
  for symbol in $(sed -n 's/=y$//p' "$config"); do
    grep -q "^$symbol=y" .config || echo "uml_kernel.sh: this source has no $symbol"
  done
  make ARCH=um CC="ccache gcc" -j"$(nproc)" linux
  mkdir -p "$folder"
  # Whole or not at all, whoever else builds it.
  cp linux "$kernel.$$" && mv "$kernel.$$" "$kernel"
}

if [ "${1:-}" = --build ] && [ ! -x "$kernel" ]; then (build) >&2; fi
[ -x "$kernel" ] || { echo "uml_kernel.sh: $kernel is not built: uml_kernel.sh --build" >&2; exit 1; }
echo "$kernel"
