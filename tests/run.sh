#!/usr/bin/env bash
# run.sh - builds Blu and runs every test, the parts in C once more with the address and undefined-behaviour sanitizers.
# May be run again: only what has changed is built anew.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cmake/packages.sh"

usage() {
  cat << EOF_USAGE
usage: tests/run.sh [--long]

Builds Blu in build/ and with sanitizers in build-asan/, and runs all tests. On Debian 12 it first installs what is missing, as root or
with sudo. For a few tests only, after a build: ctest --test-dir build -R NAME --output-on-failure

  --long    also the tests that take minutes: accuracy of every model with several seeds
  --help    this text

exit status: 0 all tests passed, 1 a test failed or could not be run, 2 usage, 130 stopped (Ctrl-C)
EOF_USAGE
}

passed=0 failed=0 skipped=0

# A number in the head of ctest's report; its lines differ between versions of ctest.
count() { # attribute, report
  sed -n '/<testsuite/,/>/p' "$2" | tr '\n\t' '  ' | sed 's/>.*//; s/.* '"$1"'="\([0-9]*\)".*/\1/'
}

# Runs ctest in a folder and adds up what it did.
run_tests() { # folder, arguments of ctest
  local folder=$1 report=$BLU_LOGS/$1-tests.xml status=0 all bad not_run
  shift
  rm -f "$report"
  echo
  echo "tests in $folder"
  ctest --test-dir "$folder" -j "$jobs" --output-on-failure --timeout 300 --output-junit "$report" "$@" < /dev/null || status=$?
  [ -s "$report" ] || blu_fail "ctest in $folder left no report"
  all=$(count tests "$report")
  bad=$(count failures "$report")
  not_run=$(($(count skipped "$report") + $(count disabled "$report")))
  passed=$((passed + all - bad - not_run)) failed=$((failed + bad)) skipped=$((skipped + not_run))
  # a test that could not be started counts as skipped above, and is a failure all the same
  if [ $status != 0 ] && [ "$bad" = 0 ]; then failed=$((failed + 1)); fi
  [ "$all" -gt 0 ] || blu_fail "$folder has no tests"
}

long=
for argument; do
  case $argument in
    --long) long=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
cd "$BLU_TOP"
jobs=$(nproc)
if [ "$jobs" -gt 8 ]; then jobs=8; fi # every trainer has a thread per core already
blu_machine_ready
blu_has_avx2 || blu_fail "this processor lacks AVX2: the tests run trainers that are compiled for x86-64-v3"
blu_build build ''
run_tests build ${long:+-C Long}
echo
blu_build build-asan '' -DBLU_SANITIZE=ON
ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
  run_tests build-asan -L '^(unit|frontend|passes|ops|codegen|driver)$'
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
