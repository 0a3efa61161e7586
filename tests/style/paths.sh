#!/bin/sh
# paths.sh ROOT: every path in backticks in docs/*.md that begins with a folder of the project exists; NAME stands for any name, * too.
root=$1 failed=0 n=0
cd "$root" || exit 2
for doc in docs/*.md; do
  for path in $(grep -oE '`(frontend|dialects|passes|codegen|runtime|models|docs|tests|cmake)/[A-Za-z0-9_./*-]*`' "$doc" | tr -d '`' | sort -u); do
    n=$((n + 1))
    case $path in *NAME*) path=${path%/*}/ ;; esac
    set -- $path
    if [ ! -e "$1" ]; then echo "FAIL $doc names $path, which is not there"; failed=1; fi
  done
done
if [ $n -eq 0 ]; then echo "FAIL no path found in docs/"; failed=1; fi
exit $failed
