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

count() { # attribute of ctest's report, report
  sed -n 's/^.*[[:space:]]'"$1"'="\([0-9]*\)".*$/\1/p' "$2" | head -n 1
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
  all=$(head -c 2000 "$report" | tr '\n' ' ' > "$report.head"; count tests "$report.head")
  bad=$(count failures "$report.head")
  not_run=$(($(count skipped "$report.head") + $(count disabled "$report.head")))
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
blu_machine_ready
blu_has_avx2 || blu_fail "this processor lacks AVX2: the tests run trainers that are compiled for x86-64-v3"
blu_build build ''
blu_build build-asan '' -DBLU_SANITIZE=ON
run_tests build ${long:+-C Long}
# LLVM and MLIR are not instrumented, so that containers of theirs would seem to overflow.
ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0 UBSAN_OPTIONS=print_stacktrace=1 \
  run_tests build-asan -L '^(unit|frontend|passes|ops|codegen|driver)$'
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
