# To be sourced by `dev`: runs commands, shows how far they are, counts and prints what they find.

say() { printf '==> %s\n' "$*"; }

passed=0
failed=0
skipped=0

# --- time -----------------------------------------------------------------------------------------
# Sets `cpu` to the seconds of processor that this shell and its commands took so far, the system's included.
count_cpu() {
  local file
  file=$(mktemp)
  times >"$file"  # in a subshell it would be that of the subshell
  cpu=$(awk -F '[ms ]+' '{ sum += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", sum }' "$file")
  rm -f "$file"
}

in_minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# What the whole of a command of ./dev cost.
say_took() {
  count_cpu
  say "took $(in_minutes $SECONDS); processors worked for $(in_minutes "$cpu")"
}

# --- progress -------------------------------------------------------------------------------------
# how_far LOG: the newest "done/all" of ninja's, meson's or a test's output.
how_far() { tail -c 20000 "$1" | tr '\r' '\n' | grep -aoE '^ *\[?[0-9]+/[0-9]+[] ]' | tail -1 | tr -d '[] '; }

# show_progress NAME LOG: a line that changes on a terminal, elsewhere one a minute; until it is ended, or ./dev is.
# A `sleep` that outlived it would keep the pipe open into which ./dev writes.
show_progress() {
  local name=$1 log=$2 begun=$SECONDS every=60 format='    %s: %s after %s\n'
  if [ -t 1 ]; then
    every=1
    format='\r==> %-46s %s, %s '
  fi
  trap 'kill $!; exit' TERM
  while sleep "$every" & wait $!; kill -0 $$ 2>/dev/null; do
    # shellcheck disable=SC2059  # one of the two above
    printf "$format" "$name" "$(how_far "$log")" "$(in_minutes $((SECONDS - begun)))"
  done
}

# with_progress NAME LOG COMMAND...: its output goes into the log.
with_progress() {
  local name=$1 log=$2 watcher status
  shift 2
  show_progress "$name" "$log" &
  watcher=$!
  "$@" >"$log" 2>&1
  status=$?
  kill "$watcher"
  wait "$watcher" 2>/dev/null
  [ ! -t 1 ] || printf '\r\033[K'
  return $status
}

# show_failure LOG: all that the command printed, except how far it was, and what gold says of each sanitizer's symbol.
show_failure() { grep -avE '^\[[0-9]+/[0-9]+\] |ld\.gold: warning: Cannot export local symbol' "$1"; }

# end NAME BEGUN WORD...: the line of what began at that second.
end() { printf '==> %-46s %s (%d s)\n' "$1" "${*:3}" $((SECONDS - $2)); }

# report NAME WORD COMMAND...: a line with the word if the command succeeds, else FAILED and what it printed.
report() {
  local name=$1 word=$2 log begun=$SECONDS status=0
  log=$(mktemp)
  if with_progress "$name" "$log" "${@:3}"; then
    end "$name" "$begun" "$word"
  else
    status=1
    end "$name" "$begun" "FAILED"
    show_failure "$log"
  fi
  rm -f "$log"
  return $status
}

# work NAME COMMAND...: a part of a command that is no test.
work() { report "$1" "done" "${@:2}"; }

# --- verdicts -------------------------------------------------------------------------------------
# A gate is one test: passes or fails as a whole.
gate() {
  if report "$1" "ok" "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# A build that fails is one failed test; one that succeeds is none.
compile() {
  report "$1" "built" "${@:2}" && return
  failed=$((failed + 1))
  return 1
}

# How many tests run at a time. Guests mostly wait.
at_once=$jobs
guests_at_once=$((2 * jobs))

# run_suite NAME FOLDER COUNT_OPTION MESON_TEST_ARGUMENTS...
run_suite() {
  local name=$1 folder=$2 option=$3 errors counts begun=$SECONDS
  shift 3
  rm -f "$folder"/meson-logs/testlog-dev*
  with_progress "$name" "$folder/meson-logs/dev.log" env PYTHONUNBUFFERED=1 meson test -C "$folder" --no-rebuild \
    --num-processes "$at_once" --logbase testlog-dev "$@"
  local log=("$folder"/meson-logs/testlog-dev*.json)
  if [ ! -s "${log[0]}" ]; then
    end "$name" "$begun" "FAILED: no test ran"
    show_failure "$folder/meson-logs/dev.log"
    failed=$((failed + 1))
    return
  fi
  errors=$(mktemp)
  counts=$(test/count_cases.py ${option:+"$option"} "${log[0]}" 2>"$errors")
  # shellcheck disable=SC2086
  set -- $counts
  end "$name" "$begun" "$1 passed, $2 failed, $3 skipped"
  cat "$errors"
  rm -f "$errors" "${log[@]}"
  passed=$((passed + $1))
  failed=$((failed + $2))
  skipped=$((skipped + $3))
}

# Where `once` remembers what passed; empty: nowhere.
results=

# once NAME COMMAND...: unless it passed before. It is remembered with what it printed; what failed is not.
once() {
  local file=$results/${1//[^A-Za-z0-9.-]/_} had=("$passed" "$failed" "$skipped") counts
  shift
  [ -n "$results" ] || { "$@"; return; }
  if [ -s "$file.passed" ]; then
    cat "$file.log"
    read -ra counts <"$file.passed"
    passed=$((passed + counts[0]))
    skipped=$((skipped + counts[1]))
    return
  fi
  # What it printed is there before anything else is printed.
  local out tee
  exec {out}> >(tee "$file.log")
  tee=$!
  "$@" >&"$out" 2>&1
  exec {out}>&-
  wait "$tee"
  [ "$failed" -ne "${had[1]}" ] || echo "$((passed - had[0])) $((skipped - had[2]))" >"$file.passed"
}
