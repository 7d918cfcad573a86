# The steps of `./dev test`, to be sourced by it. Each builds what it needs and stands alone (`./dev
# test STEP`). Daily ones are what CI runs.
steps_daily=(format kernel deploy unit tidy alone tsan)
# With --all: everything, each source by itself, what takes long, and what only looks for news.
steps_all=(format programs kernel deploy long unit host-gcc random alone-all tidy-all tsan-all fuzz)

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
# Load, soaks, large clusters, many addresses; the benchmarks once, small. One after the other: load and figures
# want the processors for themselves.
step_long() {
  build_uml
  compile "g++, UBSan: benchmarks" compile_tests configure_ubsan build-ubsan kernel-tests \
    test/kernel/kernel_soak benchmarks || return
  local names name
  mapfile -t names < <(meson test -C build-ubsan --no-rebuild --setup full --suite long --list | sed 's,^[^/]* / ,,')
  for name in "${names[@]}"; do
    at_once=1 once "$name" run_suite "$name" build-ubsan --skips-fail --setup full --suite long "ipvs-proxier:$name"
  done
}

build_host() {
  compile "clang, ASan, UBSan: programs and host tests" compile_tests configure_clang build-clang \
    cmd/ipvs_proxier/ipvs-proxier cmd/ipvsctl/ipvsctl host-tests
}
step_unit() { build_host && run_suite "clang, ASan, UBSan: unit, property, recorded" build-clang ""; }
step_fuzz() { build_fuzzers && fuzz_all 20; }

# As they are released: optimised, so that g++ sees what it only then warns of.
programs() { configure_release && build_programs build; }
step_programs() { compile "g++: programs, as released" programs; }
# g++ compiles what changed, the host's tests too, which it does not compile elsewhere, each source alone:
# what it uses it must include. Sources of the programs are compiled as they are released.
alone() {
  configure_release && configure_ubsan || return 1
  # What meson.build names may have changed since the folders were configured.
  ninja -C build build.ninja >/dev/null && ninja -C build-ubsan build.ninja >/dev/null || return 1
  test/alone.py "$@" build build-ubsan "$jobs"
}
step_alone() { gate "g++: what changed, each source alone" alone --changed; }
step_alone-all() { gate "g++: each source alone" alone; }
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
  local step since cpu cpu_since lines=()
  for step; do
    since=$SECONDS
    count_cpu
    cpu_since=$cpu
    once "$step" "step_$step"
    count_cpu
    lines+=("$((SECONDS - since)) $((cpu - cpu_since)) $step")
  done
  say_took
  printf '%s\n' "${lines[@]}" | sort -rn |
    awk '{ printf "    %3d min %02d s, of processors %3d min %02d s  %s\n", $1 / 60, $1 % 60, $2 / 60, $2 % 60, $3 }'
  printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

# begin_all [--detach]: `once` keeps what passed for the tree as it is now; without git, which tells that, it
# keeps nothing.
begin_all() {
  local tree
  mkdir -p build-all
  case ${1:-} in
    "") export IPVS_PROXIER_ALL_SEEDS=1 ;;  # random_run.h
    --detach)
      setsid nohup ./dev test --all >>build-all/log 2>&1 </dev/null &
      say "process $! goes on by itself and writes $PWD/build-all/log"
      exit 0
      ;;
    *) die "unknown option of test --all: $1" ;;
  esac
  git rev-parse -q --verify HEAD >/dev/null || return 0
  tree=$({ git rev-parse HEAD; git diff HEAD; git ls-files -o --exclude-standard -z | xargs -0r sha1sum; } | sha1sum)
  results=build-all/${tree:0:12}
  mkdir -p "$results"
}

cmd_test() {
  local steps=("${steps_daily[@]}") step
  case ${1:-} in
    "") ;;
    --all)
      steps=("${steps_all[@]}")
      begin_all "${@:2}"
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
