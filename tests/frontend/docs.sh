#!/bin/sh
# docs.sh BLU_FRONT: every ```blu example of docs/language.md compiles, each as a file of its own.
front=$1 failed=0
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
doc=$(cd "$(dirname "$0")/../../docs" && pwd)/language.md
awk -v dir="$dir" '/^```blu$/ { n++; file = sprintf("%s/example_%02d_line_%d.blu", dir, n, NR); next }
  /^```$/ { file = ""; next }
  file { print > file }' "$doc"
n=0
for f in "$dir"/*.blu; do
  n=$((n + 1))
  if ! (cd "$dir" && "$front" "${f##*/}" > /dev/null); then
    echo "FAIL the example in docs/language.md before this does not compile"; failed=1
  fi
done
if [ $n -lt 10 ]; then echo "FAIL only $n examples found"; failed=1; fi
echo "$n examples"
exit $failed
