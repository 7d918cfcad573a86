# To be sourced by `dev`: runs commands, shows how far they are, counts and prints what they find.

say() { printf '==> %s\n' "$*"; }

passed=0
failed=0
skipped=0
started=0

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

# show_progress NAME LOG: a line that changes on a terminal, elsewhere one a minute; until it is ended.
show_progress() {
  local name=$1 log=$2 begun=$SECONDS
  if [ -t 1 ]; then
    while sleep 1; do
      printf '\r==> %-46s %s, %d s ' "$name" "$(how_far "$log")" $((SECONDS - begun))
    done
  else
    while sleep 60; do
      printf '    %s: %s after %s\n' "$name" "$(how_far "$log")" "$(in_minutes $((SECONDS - begun)))"
    done
  fi
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

# work NAME COMMAND...: what it prints is shown only if it fails.
work() {
  local log begun=$SECONDS
  log=$(mktemp)
  if with_progress "$1" "$log" "${@:2}"; then
    [ $((SECONDS - begun)) -lt 2 ] || say "$1: $((SECONDS - begun)) s"
    rm -f "$log"
    return 0
  fi
  say "$1: FAILED"
  show_failure "$log"
  rm -f "$log"
  return 1
}

# show_failure LOG: all that the command printed, except how far it was, and what gold says of each sanitizer's symbol.
show_failure() { grep -avE '^\[[0-9]+/[0-9]+\] |ld\.gold: warning: Cannot export local symbol' "$1"; }

# --- verdicts -------------------------------------------------------------------------------------
begin() { started=$SECONDS; }
# end NAME WORD...
end() { printf '==> %-46s %s (%d s)\n' "$1" "${*:2}" $((SECONDS - started)); }

# A gate is one test: passes or fails as a whole.
gate() {
  local name=$1 log
  shift
  begin
  log=$(mktemp)
  if with_progress "$name" "$log" "$@"; then
    end "$name" "ok"
    passed=$((passed + 1))
  else
    end "$name" "FAILED"
    show_failure "$log"
    failed=$((failed + 1))
  fi
  rm -f "$log"
}

# A build that fails is one failed test; one that succeeds is none.
compile() {
  local name=$1 log status=0
  shift
  begin
  log=$(mktemp)
  if with_progress "$name" "$log" "$@"; then
    end "$name" "built"
  else
    end "$name" "FAILED"
    show_failure "$log"
    failed=$((failed + 1))
    status=1
  fi
  rm -f "$log"
  return $status
}

# How many tests run at a time. Guests mostly wait.
at_once=$jobs
guests_at_once=$((2 * jobs))

# run_suite NAME FOLDER COUNT_OPTION MESON_TEST_ARGUMENTS...
run_suite() {
  local name=$1 folder=$2 option=$3 errors counts
  shift 3
  begin
  rm -f "$folder"/meson-logs/testlog-dev*
  with_progress "$name" "$folder/meson-logs/dev.log" env PYTHONUNBUFFERED=1 meson test -C "$folder" --no-rebuild \
    --num-processes "$at_once" --logbase testlog-dev "$@"
  local log=("$folder"/meson-logs/testlog-dev*.json)
  if [ ! -s "${log[0]}" ]; then
    end "$name" "FAILED: no test ran"
    show_failure "$folder/meson-logs/dev.log"
    failed=$((failed + 1))
    return
  fi
  errors=$(mktemp)
  counts=$(test/count_cases.py ${option:+"$option"} "${log[0]}" 2>"$errors")
  # shellcheck disable=SC2086
  set -- $counts
  end "$name" "$1 passed, $2 failed, $3 skipped"
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
  "$@" > >(tee "$file.log") 2>&1
  [ "$failed" -ne "${had[1]}" ] || echo "$((passed - had[0])) $((skipped - had[2]))" >"$file.passed"
}
