#!/bin/sh
# run.sh BIN: scans give what the same loops give when they are written out: loss and gradients, by the interpreter; every pass after
# `differentiate` keeps the results of the step; the plan holds. Then the comparison itself is tested.
bin=$1 failed=0
cd "$(dirname "$0")" || exit 2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
run() { # file, further arguments of blu-opt
  "$bin/blu-opt" --run=train --seed=5 --full "$@" || failed=1
}
"$bin/bluc" --emit=blu forms.blu > "$dir/scan" || failed=1
"$bin/bluc" --emit=blu -D UNROLL=true forms.blu > "$dir/unrolled" || failed=1
grep -q 'blu.scan' "$dir/scan" || { echo "FAIL no scan in forms.blu"; failed=1; }
grep -q 'blu.scan' "$dir/unrolled" && { echo "FAIL a scan in the written-out program"; failed=1; }
run -pass=differentiate "$dir/scan" > "$dir/scan.out"
run -pass=differentiate "$dir/unrolled" > "$dir/unrolled.out"
awk -v most=1e-11 -f compare.awk "$dir/scan.out" "$dir/unrolled.out" || failed=1
sed '/^grad cells.gain/s/[1-9]/0/' "$dir/scan.out" > "$dir/planted"
if awk -v most=1e-11 -f compare.awk "$dir/planted" "$dir/unrolled.out" > /dev/null; then echo "FAIL a wrong gradient passes"; failed=1; fi

passes='-pass=differentiate -pass=step'
# shellcheck disable=SC2086
run $passes "$dir/scan" > "$dir/before"
for pass in simplify expand simplify fuse plan; do
  passes="$passes -pass=$pass"
  # shellcheck disable=SC2086
  run $passes "$dir/scan" > "$dir/after"
  awk -v most=1e-11 -f compare.awk "$dir/before" "$dir/after" || { echo "FAIL after $passes"; failed=1; }
done
# shellcheck disable=SC2086
"$bin/blu-opt" $passes "$dir/scan" > "$dir/planned" || failed=1
awk -f ../plan_check.awk "$dir/planned" "$dir/planned" || failed=1
exit $failed
