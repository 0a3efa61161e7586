#!/bin/sh
# errors.sh BLU_FRONT [--update]: every errors/*.blu gives exactly the diagnostics of the .txt beside it, and exit
# status 1 (0 if its first line says "Warnings alone do not fail"). A first line "// options: ..." holds options.
# Every code of diag_codes.def occurs; those of unreadable files and of later stages are reached by robust.sh,
# and one that only a mistake of the formatter would reach.
front=$1 update=$2 failed=0 n=0
cd "$(dirname "$0")" || exit 2
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT
for f in errors/*.blu; do
  n=$((n + 1))
  read -r first < "$f"
  options= want=1
  case $first in
    "// options: "*) options=${first#// options: } ;;
    "// Warnings alone do not fail.") want=0 ;;
  esac
  # shellcheck disable=SC2086
  "$front" $options "$f" > /dev/null 2> "$out"
  status=$?
  if [ $status -ne $want ]; then
    echo "FAIL $f: exit status $status, expected $want"; failed=1
  fi
  if [ "$update" = --update ]; then cp "$out" "${f%.blu}.txt"; fi
  if ! diff -u "${f%.blu}.txt" "$out"; then
    echo "FAIL $f: other diagnostics than expected"; failed=1
  fi
done
for code in $(sed -n 's/^BLU_CODE([A-Z_]*, "\([A-Z0-9]*\)".*/\1/p' ../../frontend/diag_codes.def); do
  case $code in E0101 | E0503 | E0504 | W0604) continue ;; esac
  if ! grep -q "\[$code\]" errors/*.txt; then
    echo "FAIL no program reaches $code"; failed=1
  fi
done
echo "$n programs"
exit $failed
