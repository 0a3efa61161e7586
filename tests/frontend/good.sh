#!/bin/sh
# good.sh BLU_FRONT FILECHECK: every good/*.blu compiles without errors to the IR that its CHECK lines describe; every
# std module and every model compiles too, and all of them have the canonical layout.
front=$1 filecheck=$2 failed=0 n=0
cd "$(dirname "$0")" || exit 2
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT
for f in good/*.blu; do
  n=$((n + 1))
  read -r first < "$f"
  options=
  case $first in "// options: "*) options=${first#// options: } ;; esac
  # shellcheck disable=SC2086
  if ! "$front" $options "$f" > "$out"; then
    echo "FAIL $f: does not compile"; failed=1
  elif ! "$filecheck" "$f" < "$out"; then
    echo "FAIL $f: other IR than expected"; failed=1
  fi
done
for f in ../../frontend/std/*.blu; do # as what they are: imported
  name=${f##*/}
  echo "import ${name%.blu};" > "$out.blu"
  if ! "$front" "$out.blu" > /dev/null 2> "$out"; then cat "$out"; echo "FAIL $f: does not compile"; failed=1; fi
  rm -f "$out.blu"
done
for f in good/*.blu good/parts/*.inc ../../frontend/std/*.blu ../../models/*.blu ../golden/*.blu ast/*.blu values/*.blu; do
  if ! "$front" --format "$f" > "$out"; then diff -u "$f" "$out"; echo "FAIL $f: not in the canonical layout"; failed=1; fi
done
for f in ../../models/*.blu; do
  n=$((n + 1))
  if ! "$front" "$f" > /dev/null 2> "$out" || grep -q 'error' "$out"; then
    cat "$out"; echo "FAIL $f: does not compile"; failed=1
  fi
done
echo "$n programs"
exit $failed
