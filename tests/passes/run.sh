#!/bin/sh
# run.sh BIN LLVM_BIN FILE: runs the "// RUN: COMMAND" lines of FILE; every command must succeed. %s is FILE, %S its folder, %t a scratch file.
# BIN holds blu-opt and bluc, LLVM_BIN holds FileCheck and not.
bin=$1 llvm=$2 file=$3 failed=0 n=0
PATH=$bin:$llvm:$PATH
export PATH
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
sed -n 's|^// RUN: ||p' "$file" > "$scratch/run"
while IFS= read -r line; do
  n=$((n + 1))
  command=$(printf '%s\n' "$line" | sed "s|%s|$file|g; s|%S|$(dirname "$file")|g; s|%t|$scratch/t|g")
  if ! sh -c "$command" < /dev/null; then
    echo "FAIL $command"; failed=1
  fi
done < "$scratch/run"
if [ $n -eq 0 ]; then echo "FAIL $file has no RUN line"; failed=1; fi
exit $failed
