#!/bin/sh
# docs.sh BLU_FRONT: every ```blu example of docs/language.md compiles, each as a file of its own; every one of docs/errors.md gives the
# diagnostics that stand in the ```text block after it.
front=$1 failed=0
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
docs=$(cd "$(dirname "$0")/../../docs" && pwd) || exit 2
awk -v dir="$dir" '/^```blu$/ { n++; file = sprintf("%s/example_%02d_line_%d.blu", dir, n, NR); next }
  /^```$/ { file = ""; next }
  file { print > file }' "$docs/language.md"
n=0
for f in "$dir"/*.blu; do
  n=$((n + 1))
  if ! (cd "$dir" && "$front" "${f##*/}" > /dev/null); then
    echo "FAIL the example in docs/language.md before this does not compile"; failed=1
  fi
done
if [ $n -lt 10 ]; then echo "FAIL only $n examples found"; failed=1; fi

mkdir "$dir/errors"
awk -v dir="$dir/errors" '/^```blu$/ { getline; name = $2; sub(/\.blu$/, "", name); file = dir "/" name ".blu"; print > file; next }
  /^```text$/ { file = dir "/" name ".txt"; next }
  /^```/ { file = ""; next }
  file { print > file }' "$docs/errors.md"
m=0
for f in "$dir"/errors/*.blu; do
  m=$((m + 1))
  (cd "$dir/errors" && "$front" "${f##*/}" > /dev/null 2> said)
  if ! diff -u "${f%.blu}.txt" "$dir/errors/said"; then echo "FAIL docs/errors.md: ${f##*/} says something else"; failed=1; fi
done
if [ $m -lt 5 ]; then echo "FAIL only $m mistakes found"; failed=1; fi
echo "$n examples, $m mistakes"
exit $failed
