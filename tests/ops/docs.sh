#!/bin/sh
# docs.sh BLU_OPSDOC ROOT: docs/ops.md is what blu-opsdoc writes, and every constraint label of dialects/*.c stands in it (but
# those of the interpreter, which are about programs and not about ops).
opsdoc=$1 root=$2 failed=0 n=0
cd "$root" || exit 2
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
if ! "$opsdoc" > "$dir/ops.md"; then
  echo "FAIL $opsdoc refuses the op table"; failed=1
fi
if ! diff -u docs/ops.md "$dir/ops.md" | head -40 > "$dir/diff" || [ -s "$dir/diff" ]; then
  cat "$dir/diff"
  echo "FAIL docs/ops.md is out of date; write it anew with: build/bin/blu-opsdoc > docs/ops.md"; failed=1
fi
for label in $(sed -n 's/.*blu_refuse([a-z>-]*, "\([a-z0-9-]*\)".*/\1/p; s/.*"\[\([a-z-]*\)\] .*/\1/p' $(ls dialects/*.c | grep -v interp.c) | sort -u); do
  n=$((n + 1))
  if ! grep -qF "\`$label\`" docs/ops.md; then
    echo "FAIL the constraint $label does not stand in docs/ops.md"; failed=1
  fi
done
if [ $n -eq 0 ]; then echo "FAIL no label found in dialects/"; failed=1; fi
echo "$n labels"
exit $failed
