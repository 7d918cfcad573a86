# To be sourced by test scripts: named cases, and a last line that count_cases.py understands.
cases=0
failures=0

# check NAME COMMAND...: one test case; what the command prints is shown only if it fails.
check() {
  local output
  cases=$((cases + 1))
  if output=$("${@:2}" 2>&1); then
    echo "ok: $1"
  else
    echo "FAILED: $1"
    printf '%s\n' "$output"
    failures=$((failures + 1))
  fi
}

# has TEXT LINE...: the text has each of them.
has() {
  local line
  for line in "${@:2}"; do
    grep -qF -- "$line" <<<"$1" || { printf 'no line "%s" in:\n%s\n' "$line" "$1"; return 1; }
  done
}

# The last command of a script.
finish() {
  echo "test cases: $cases | $((cases - failures)) passed | $failures failed"
  [ $cases -gt 0 ] && [ $failures -eq 0 ]
}
