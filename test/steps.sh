# The steps of `./dev test`, to be sourced by it. Each builds what it needs and stands alone (`./dev
# test STEP`). Daily ones are what CI runs.
steps_daily=(format kernel deploy unit tidy alone tsan)
# With --all: everything, each source by itself, what takes long, and what only looks for news.
steps_all=(format programs kernel deploy long unit host-gcc random tidy-all tsan-all fuzz)

step_format() { gate "format" check_format; }

# The programs and what runs them in the scratch kernel.
build_kernel() {
  compile "g++, UBSan: programs and kernel tests" compile_tests configure_ubsan build-ubsan kernel-tests
}
build_uml() {
  test/kernel/uml_kernel.sh >/dev/null 2>&1 && return
  compile "User Mode Linux with nf_tables, once" test/kernel/uml_kernel.sh --build
}
step_kernel() {
  build_uml
  build_kernel || return
  at_once=$guests_at_once run_suite "in the scratch kernel" build-ubsan --skips-fail --setup full \
    --suite kernel
}
step_deploy() {
  build_kernel &&
    run_suite "manifests, manual pages, package" build-ubsan --skips-fail --setup full --suite deploy
}
# Load, soaks, large clusters, many addresses; the benchmarks once, small.
step_long() {
  build_uml
  compile "g++, UBSan: benchmarks" compile_tests configure_ubsan build-ubsan kernel-tests \
    test/kernel/kernel_soak benchmarks || return
  # Load and figures want the processors for themselves.
  run_suite "in the scratch kernel, what takes long" build-ubsan --skips-fail --setup full --suite long
}

build_host() {
  compile "clang, ASan, UBSan: programs and host tests" compile_tests configure_clang build-clang \
    cmd/ipvs_proxier/ipvs-proxier cmd/ipvsctl/ipvsctl host-tests
}
step_unit() { build_host && run_suite "clang, ASan, UBSan: unit, property, recorded" build-clang ""; }
step_fuzz() { build_fuzzers && fuzz_all 20; }

# Optimised as the demo wants them, each source alone: what it uses it must include.
step_programs() { compile "g++: programs, optimised, each source alone" compile_programs; }
# g++ reads what changed, the host's tests too, which it does not compile elsewhere; each source alone.
alone() { configure_ubsan && test/alone.py "$@" build-ubsan "$jobs"; }
step_alone() { gate "g++: what changed, each source alone" alone --changed; }
# The host's tests by g++ as well.
step_host-gcc() {
  compile "g++, UBSan: host tests" compile_tests configure_ubsan build-ubsan host-tests
}

# A minute each; what they run for daily is seconds, with a seed that stays.
random_tests=(test/unit/unit_{plan,reflector,sync_long,curl_transport}
  test/kernel/kernel_{hostile,follow}_tests cmd/ipvs_proxier/ipvs-proxier cmd/ipvsctl/ipvsctl)
step_random() {
  compile "g++, UBSan: random tests" compile_tests configure_ubsan build-ubsan "${random_tests[@]}" &&
    gate "random tests, a minute each" test/random_runs.sh build-ubsan 60 "$(date +%Y%m%d)"
}

tidy() { configure_clang && test/tidy.py "$@" build-clang "$jobs"; }
step_tidy() { gate "clang-tidy: what changed, and what includes it" tidy --changed; }
step_tidy-all() { gate "clang-tidy: all" tidy; }

# What has threads of its own: the mailbox and the main loop (loop), the servers (serve) and the sync
# thread. The rest runs on one of these threads; with --all the rooms that meet the threads of the
# test API server as well (not api_server itself: its resets disconnect sockets of libmicrohttpd's
# threads on purpose).
threaded=(loop serve sync_thread)
meets_threads=("${threaded[@]}" control sync watch curl_transport access)
tsan() {
  compile "g++, TSan: build" compile_tests configure_tsan build-tsan "${@/#/test/unit/unit_}" &&
    run_suite "g++, TSan: what has threads" build-tsan "" "$@"
}
step_tsan() { tsan "${threaded[@]}"; }
step_tsan-all() { tsan "${meets_threads[@]}"; }

# run_steps STEP...: and then the minutes of each, slowest first.
run_steps() {
  local step begun=$SECONDS since times=()
  for step; do
    since=$SECONDS
    "step_$step"
    times+=("$((SECONDS - since)) $step")
  done
  say "took $(((SECONDS - begun) / 60)) min $(((SECONDS - begun) % 60)) s"
  printf '%s\n' "${times[@]}" | sort -rn |
    awk '{ printf "    %3d min %2d s  %s\n", $1 / 60, $1 % 60, $2 }'
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

cmd_test() {
  local steps=("${steps_daily[@]}") step
  case ${1:-} in
    "") ;;
    --all)
      steps=("${steps_all[@]}")
      export IPVS_PROXIER_ALL_SEEDS=1  # random_run.h
      ;;
    *) steps=("$@") ;;
  esac
  for step in "${steps[@]}"; do
    declare -F "step_$step" >/dev/null ||
      die "no step of test: $step (there are $(declare -F | sed -n 's/.* step_//p' | tr '\n' ' '))"
  done
  ensure_packages "${packages_build[@]}" "${packages_clang[@]}" "${packages_lint[@]}" \
    "${packages_deploy[@]}" || exit 1
  # Without scratch kernels everything else is still worth knowing; the kernel suite fails then.
  ensure_packages "${packages_guest[@]}"
  ensure_packages "${packages_qemu[@]}"
  ensure_packages "${packages_uml[@]}"
  run_steps "${steps[@]}"
}
