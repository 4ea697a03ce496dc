#!/usr/bin/env bash
# Installs missing packages, builds the release and asan presets and runs the lit tests with each,
# and the unit tests with asan. Builds the wheel and checks it in an empty Debian, installs the
# Python package into .venv and runs its tests. Builds the site of the documentation. Runs the
# fuzzer for a minute (FUZZ_SECONDS). A part that leaves a core idle runs in parallel with another
# one. At the end it prints the time of each part and the failed tests; the last line is
# `N passed, N failed`, and the exit status is 0 when none failed.
#
# With --all also the tests that have a short form and take long in their long one:
# exhaustive searches, all sizes, every family as a training, Open MPI, LaTeX, and
# the unit tests with release.
#
# The preset dev is not built here: asan is dev with sanitizers, so that it has
# the same shared libMLIR and the same assertions.

. "$(dirname "${BASH_SOURCE[0]}")/lib/setup.sh"

release_check=check-pipesched-lit
case ${1:-} in
'') ;;
--all)
  export PIPESCHED_TEST_ALL=1
  release_check=check
  test_packages+=("${long_test_packages[@]}")
  ;;
*) fail "$1 is no option of scripts/test.sh; it has --all" ;;
esac

# Tests of processes wait for each other, so that one test more than cores runs
# in their idle time. lit reads this.
export LIT_OPTS="-j$(($(nproc) + 1)) ${LIT_OPTS:-}"

passed=0
failed=0
# One line per part, in the order in which the parts ended.
times=$(mktemp)
# Failures, a line each: `PART: FAIL: PipeSched :: Docs/examples.test (3 of 9)`.
failures=$(mktemp)

# note_time NAME START: notes that a part that started at START (SECONDS) ends now.
note_time() {
  printf '%6d s  %s\n' $((SECONDS - $2)) "$1" >>"$times"
}

# tally NAMES LOG: adds up the counts that NAMES matches in lit's summaries, one per
# line (`  Passed: 12`), and in pytest's (`12 passed, 1 failed in 3.4s`).
tally() {
  awk -F: -v names="^ *($1) *$" '
    $1 ~ names { n += $2 }
    / in [0-9.]+s/ { for (i = split($0, word, "[ ,=]+"); i > 1; i--)
                       if (word[i] ~ names) n += word[i - 1] }
    END { print n + 0 }' "$2"
}

# failures_in NAME LOG: the lines in which lit and pytest name a test that failed.
failures_in() {
  { grep -hE '^((FAIL|UNRESOLVED|TIMEOUT|XPASS): |(FAILED|ERROR) [^ ]*::)' "$2" || true; } |
    sed "s|^|$1: |" | sort -u
}

# count NAME STATUS LOG: adds the counts in the log of a command. A command that fails without a
# failed test (for example, because it does not build) counts as one failure.
count() {
  local name=$1 status=$2 log=$3 before=$failed
  passed=$((passed + $(tally 'Passed|Expectedly Failed|passed|xfailed' "$log")))
  failed=$((failed + $(tally \
    'Failed|Unresolved|Timed Out|Unexpectedly Passed|failed|errors?|xpassed' "$log")))
  failures_in "$name" "$log" >>"$failures"
  rm -f "$log"
  if [ "$status" != 0 ] && [ "$failed" = "$before" ]; then
    printf 'error: %s failed\n' "$name" | tee -a "$failures"
    failed=$((failed + 1))
  fi
}

# run NAME COMMAND...: runs a command and counts its tests.
run() {
  local name=$1 log status=0 begin=$SECONDS
  shift
  log=$(mktemp)
  printf '== %s\n' "$name"
  "$@" 2>&1 | tee "$log" || status=1
  note_time "$name" $begin
  count "$name" $status "$log"
}

# timed NAME COMMAND...: runs a command and notes its time, also if it fails.
timed() {
  local name=$1 status=0 begin=$SECONDS
  shift
  "$@" || status=$?
  note_time "$name" $begin
  return $status
}

# run_alongside NAME COMMAND...: starts a command, which runs alongside the next
# ones.
run_alongside() {
  other_name=$1
  shift
  other_log=$(mktemp)
  timed "$other_name, alongside the next part" "$@" >"$other_log" 2>&1 &
  other=$!
}

# finish_alongside: waits for the command of run_alongside, prints its output in one
# piece and counts its tests.
finish_alongside() {
  local status=0
  wait "$other" || status=1
  printf '== %s\n' "$other_name"
  cat "$other_log"
  count "$other_name" $status "$other_log"
}

# Fuzzes from the seeds alongside the fuzz target; inputs that it finds stay in
# build/asan/fuzz.
fuzz() {
  mkdir -p build/asan/fuzz/corpus
  ASAN_OPTIONS=detect_container_overflow=0:allow_user_poisoning=0 \
    build/asan/bin/pipesched-fuzz -max_total_time="${FUZZ_SECONDS:-60}" \
    -timeout=10 -rss_limit_mb=4096 -max_len=8192 -verbosity=0 \
    -print_funcs=0 -print_final_stats=1 -artifact_prefix=build/asan/fuzz/ \
    -dict=tools/pipesched-fuzz/pipesched.dict \
    build/asan/fuzz/corpus tools/pipesched-fuzz/corpus &&
    printf '  Passed: 1\n'
}

# Builds the inputs of the tests of the package: the wheel, which they read, and
# the package in .venv. One release of Debian is enough here; scripts/wheel.sh
# by itself takes two.
packages() {
  local status=0
  if WHEEL_MAY_SKIP=1 WHEEL_SUITES=bookworm scripts/wheel.sh; then
    printf '  Passed: 1\n'
  else
    status=1
  fi
  install_python test && return $status
}

# A file stays in one process, since its tests share results that took long to
# compute. Tests of ranks wait for each other, so that one process more than
# cores uses their idle time.
python_tests() {
  .venv/bin/python -m pytest -rs -n $(($(nproc) + 1)) --dist loadfile
}

site() {
  scripts/docs.sh && printf '  Passed: 1\n'
}

lint() {
  scripts/lint.sh --fast && printf '  Passed: 1\n'
}

timed "packages of Debian" install_packages "${build_packages[@]}" \
  "${python_packages[@]}" "${sanitizer_packages[@]}" "${lint_packages[@]}" \
  "${test_packages[@]}"
run "style" lint
run "build, release" build release all
run "tests, release" build release "$release_check"
run_alongside "wheel and package" packages
run "build, sanitizers" build asan all pipesched-unittests
run "all tests, sanitizers" build asan check
finish_alongside
run_alongside "fuzzing" fuzz
run "site of the documentation" site
run "Python" python_tests
finish_alongside

printf '== time\n'
cat "$times"
printf '%6d s  in all\n' "$SECONDS"
if [ -s "$failures" ]; then
  printf '== failed\n'
  cat "$failures"
fi
rm -f "$times" "$failures"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
