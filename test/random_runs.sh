#!/bin/bash
# Lets random tests run for longer than they do daily.
#
# usage: random_runs.sh BUILD_FOLDER SECONDS SEED
#
# Each case with the tag [random] gets so many seconds and this luck (test/support/random_run.h). A
# failure prints the seed that shows it again, and the smallest input. The kernel's cases run in the
# scratch kernel.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
build=$PWD/$1
export IPVS_PROXIER_SOAK_SECONDS=$2 IPVS_PROXIER_SOAK_SEED=$3
failed=0

# run NAME COMMAND...
run() {
  printf -- '--- %s, seed %s, %s s\n' "$1" "$IPVS_PROXIER_SOAK_SEED" "$IPVS_PROXIER_SOAK_SECONDS"
  shift
  "$@" '[random]' --use-colour no || failed=1
}

for suite in plan reflector sync_long curl_transport; do
  run "$suite" "$build/test/unit/unit_$suite"
done
for suite in kernel_hostile_tests kernel_follow_tests; do
  run "$suite" test/kernel/uml_run.sh --timeout $((3 * $2 + 600)) "$build/test/kernel/$suite"
done
exit $failed
