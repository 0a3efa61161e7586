#!/bin/sh
# models.sh BIN MODELS: every model goes through the passes with the verifier after each; one at a time by blu-opt they give the IR
# that bluc prints; its plan holds (plan_check.awk). Then the check itself is tested: a plan with one place moved must not pass.
bin=$1 models=$2 failed=0 n=0
cd "$(dirname "$0")" || exit 2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
passes='-pass=bounds -pass=differentiate -pass=step -pass=simplify -pass=expand -pass=formats -pass=simplify'
for m in "$models"/*.blu; do
  n=$((n + 1))
  "$bin/bluc" --emit=blu "$m" > "$dir/blu" || failed=1
  # shellcheck disable=SC2086
  "$bin/blu-opt" $passes -pass=fuse "$dir/blu" > "$dir/kernels" || failed=1
  "$bin/bluc" --verify-each --emit=kernels "$m" > "$dir/expected" || failed=1
  cmp "$dir/kernels" "$dir/expected" || { echo "FAIL $m: blu-opt and bluc give other kernels"; failed=1; }
  "$bin/blu-opt" -pass=plan "$dir/kernels" > "$dir/planned" || failed=1
  awk -f plan_check.awk "$dir/planned" "$dir/planned" || { echo "FAIL $m: the plan"; failed=1; }
  "$bin/blu-opt" -pass=plan --plan "$dir/kernels" > "$dir/text" || failed=1
  "$bin/bluc" --emit=plan "$m" | cmp - "$dir/text" || { echo "FAIL $m: blu-opt and bluc print other plans"; failed=1; }
  # the last place of the last launch, moved by one cache line
  awk '{ line[NR] = $0; if (/blu.places/) last = NR }
    END { for (i = 1; i <= NR; i++) { if (i == last) sub(/>} : \(/, "0>} : (", line[i]); print line[i] } }' "$dir/planned" > "$dir/planted"
  if awk -f plan_check.awk "$dir/planted" "$dir/planted" > /dev/null; then echo "FAIL $m: a wrong plan passes the check"; failed=1; fi
done
if [ $n -eq 0 ]; then echo "FAIL no models in $models"; failed=1; fi
echo "$n models"
exit $failed
