#!/bin/sh
# verify.sh BLU_OPT LABELS_TEST: every part of verify.mlir is refused, with the label that the part is called by. Labels of
# dialects/*.c that IR can't reach are reached by labels_test.c; a label that neither reaches fails here.
opt=$1 labels_test=$2 failed=0 n=0
cd "$(dirname "$0")" || exit 2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
awk -v dir="$dir" '/^\/\/--- / { n++; out = sprintf("%s/%03d.mlir", dir, n); print $2 > (out ".label"); next } n { print > out }' verify.mlir
for f in "$dir"/*.mlir; do
  n=$((n + 1))
  read -r label < "$f.label"
  if "$opt" "$f" > "$dir/out" 2>&1; then
    echo "FAIL $label: accepted"; cat "$f"; failed=1
  elif ! grep -q "error: 'blu\.[a-z0-9_]*' op \[$label\] " "$dir/out"; then
    echo "FAIL $label: another error"; cat "$f" "$dir/out"; failed=1
  fi
done
if ! "$labels_test" > "$dir/reached"; then
  cat "$dir/reached"; failed=1
fi
cat "$dir"/*.label >> "$dir/reached"
for label in $(sed -n 's/.*blu_refuse([a-z>-]*, "\([a-z0-9-]*\)".*/\1/p; s/.*"\[\([a-z-]*\)\] .*/\1/p' ../../dialects/*.c | sort -u); do
  if ! grep -qx "$label" "$dir/reached"; then
    echo "FAIL nothing reaches the constraint $label"; failed=1
  fi
done
echo "$n refused"
exit $failed
