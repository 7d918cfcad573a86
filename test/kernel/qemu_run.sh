#!/bin/bash
# Runs one command, with its arguments, environment and working directory, under a kernel of Debian in
# QEMU, which interprets it: slower than uml_run.sh, but the kernel that nodes have, and any version. It
# sees the files of this host, but cannot change them. Its output is ours, its exit status is ours.
#
#   qemu_run.sh [--kernel KERNEL] [--without MODULE] [--mem 1024M] [--timeout SECONDS] [--no-modules]
#               [--no-preload] COMMAND [ARGUMENT...]
#
#   --kernel stock    Debian 12's (default)
#   --kernel 6.12     that of bookworm-backports
#   --kernel newest   the newest that Debian offers for any of its releases
#   --without MODULE  the guest has neither this module nor those that need it; as often as wanted
#   --no-modules      nothing can be loaded: a host whose kernel lacks IPVS
#   --no-preload      modules are there but none is loaded before the command starts
#
# Kernels are fetched once into build-kernels (qemu_kernel.sh). Exit status 77 without QEMU
# (qemu-system-x86, busybox-static), 124 after the timeout, 125 if the guest ended without an answer or
# there is no such kernel.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/kernel/guest_run.sh
source "$here/guest_run.sh"
memory=1024M
kernel=stock

own_option() {
  case $1 in
    --kernel) kernel=$2; taken=2 ;;
    --kernel=*) kernel=${1#*=}; taken=1 ;;
    --without) without+=("$2"); taken=2 ;;
    --without=*) without+=("${1#*=}"); taken=1 ;;
  esac
}
parse_options "$@"

# module_folder: what the guest has for /lib/modules.
module_folder() {
  local base=$kernels/modules release name
  if [ ${#without[@]} -gt 0 ]; then
    release=$(cat "$kernels/release")
    base=$run/modules
    cp -r "$kernels/modules" "$base" || return 1
    for name in "${without[@]}"; do
      # Names of files may have either sign.
      find "$base" -name "${name//[-_]/[-_]}.ko*" -delete
    done
    # What needs a module that is gone cannot be loaded either.
    depmod -b "$base" "$release"
  fi
  echo "$base/lib/modules"
}

# share ID FOLDER OPTION: a folder of this host that the guest can mount by that name.
share() {
  qemu+=(-fsdev "local,id=$1,path=$2,security_model=none,multidevs=remap$3"
    -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

in_guest() {
  local kernels qemu folder
  kernels=$here/../../build-kernels/$kernel
  "$here/qemu_kernel.sh" "$kernel" "$kernels" || exit 125
  kernels=$(realpath "$kernels")
  folder=$(module_folder) || exit 125
  # One processor: with TCG a second one makes all slower. Without la57 the page tables are a level less.
  qemu=(qemu-system-x86_64 -M q35 -no-reboot -accel tcg,tb-size=256 -cpu max,la57=off -smp 1 -m "$memory"
    -nodefaults -no-user-config -display none -monitor none -serial "file:$run/console.log"
    -kernel "$kernels/vmlinuz" -initrd "$kernels/initrd"
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check random.trust_cpu=on audit=0 nowatchdog IPVS_GUEST_RUN=$run IPVS_GUEST_KIND=qemu"
    -object rng-random,filename=/dev/urandom,id=rng -device virtio-rng-pci,rng=rng
    -chardev stdio,id=output,signal=off -device virtio-serial-pci -device virtconsole,chardev=output)
  share root / ,readonly=on
  share run "$run" ""
  share modules "$folder" ,readonly=on
  timeout -k 5 "$seconds" "${qemu[@]}" 2>>"$run/errors.log" </dev/null &
  wait_for_child
  exit_status $?
}

if ! command -v qemu-system-x86_64 >/dev/null || ! command -v busybox >/dev/null; then
  echo "qemu_run.sh: no QEMU (packages qemu-system-x86 and busybox-static)" >&2
  exit 77
fi
make_run_folder
in_guest
