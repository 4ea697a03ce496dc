#!/usr/bin/env bash
# Installs what is missing, builds the dev, release and asan presets and runs
# every test in each, builds the wheel and checks it in an empty Debian, installs
# the Python package into .venv and runs its tests, then runs the fuzzer for a
# minute (FUZZ_SECONDS). The last line is `N passed, N failed`; the exit status is
# 0 when none failed.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

passed=0
failed=0

# tally NAMES LOG: adds up the counts that NAMES matches in lit's summaries, one per
# line (`  Passed: 12`), and in pytest's (`12 passed, 1 failed in 3.4s`).
tally() {
  awk -F: -v names="^ *($1) *$" '
    $1 ~ names { n += $2 }
    / in [0-9.]+s/ { for (i = split($0, word, "[ ,=]+"); i > 1; i--)
                       if (word[i] ~ names) n += word[i - 1] }
    END { print n + 0 }' "$2"
}

# run NAME COMMAND...: runs one command; if it fails without a failed test of its own
# (for example, because it does not build), it counts as one failure.
run() {
  local name=$1 before=$failed log
  shift
  log=$(mktemp)
  printf '== %s\n' "$name"
  local status=0
  "$@" 2>&1 | tee "$log" || status=1
  passed=$((passed + $(tally 'Passed|Expectedly Failed|passed|xfailed' "$log")))
  failed=$((failed + $(tally \
    'Failed|Unresolved|Timed Out|Unexpectedly Passed|failed|errors?|xpassed' "$log")))
  rm -f "$log"
  if [ $status != 0 ] && [ "$failed" = "$before" ]; then
    printf 'error: %s failed\n' "$name"
    failed=$((failed + 1))
  fi
}

# Fuzzes from the seeds beside the fuzz target; inputs that it finds stay in
# build/asan/fuzz.
fuzz() {
  build asan pipesched-fuzz || return
  mkdir -p build/asan/fuzz/corpus
  ASAN_OPTIONS=detect_container_overflow=0:allow_user_poisoning=0 \
    build/asan/bin/pipesched-fuzz -max_total_time="${FUZZ_SECONDS:-60}" \
    -timeout=10 -rss_limit_mb=4096 -max_len=8192 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix=build/asan/fuzz/ \
    -dict=tools/pipesched-fuzz/pipesched.dict \
    build/asan/fuzz/corpus tools/pipesched-fuzz/corpus &&
    printf '  Passed: 1\n'
}

# Tests of the package read the wheel, so that it comes before them.
wheel() {
  # One release is enough here; scripts/wheel.sh by itself takes two.
  WHEEL_MAY_SKIP=1 WHEEL_SUITES=bookworm scripts/wheel.sh && printf '  Passed: 1\n'
}

python_tests() {
  install_python test && .venv/bin/python -m pytest
}

lint() {
  scripts/lint.sh --fast && printf '  Passed: 1\n'
}

install_packages "${build_packages[@]}" "${python_packages[@]}" \
  "${sanitizer_packages[@]}" \
  "${lint_packages[@]}" "${test_packages[@]}"
run "style" lint
run "all tests, dev" build dev all check
run "all tests, release" build release all check
run "wheel" wheel
run "Python" python_tests
run "all tests, sanitizers" build asan check
run "fuzzing" fuzz

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
