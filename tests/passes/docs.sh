#!/bin/sh
# docs.sh BIN ROOT: docs/ir.md is true. Every command of a ```sh block runs, in a folder that holds the files whose ```blu blocks begin with
# "// NAME"; the ```mlir and ```text blocks behind it are excerpts of what it prints; a block ```c FILE is an excerpt of that file.
bin=$1 root=$2 failed=0
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
PATH=$bin:$PATH
export PATH
cd "$dir" || exit 2

# part-NNN.KIND, one per block; the first line of a part is its line in the document, for a part of kind c followed by the file.
awk '/^```[a-z]/ && !open { open = 1; n++; kind = substr($1, 4); out = sprintf("part-%03d.%s", n, kind); print NR, $2 > out; next }
  /^```$/ { open = 0; close(out); next }
  open { print > out }' "$root/docs/ir.md"

excerpt() { # excerpt PART FILE
  tail -n +2 "$1" > excerpt
  if ! awk -f "$here/excerpt.awk" excerpt "$2"; then
    read -r line _ < "$1"
    echo "FAIL docs/ir.md:$line: this is no excerpt of $3"; failed=1
  fi
}

commands=0 excerpts=0
: > output
for part in part-*; do
  read -r line file < "$part"
  case $part in
    *.blu)
      name=$(sed -n '2s|^// \([a-z_]*\.blu\).*|\1|p' "$part")
      if [ -z "$name" ]; then echo "FAIL docs/ir.md:$line: a model without a name"; failed=1; continue; fi
      tail -n +3 "$part" > "$name" ;;
    *.sh)
      commands=$((commands + 1))
      tail -n +2 "$part" > command
      if ! sh -e command > output 2> errors < /dev/null; then
        cat errors; echo "FAIL docs/ir.md:$line: the command fails"; failed=1
      fi ;;
    *.mlir | *.text) excerpts=$((excerpts + 1)); excerpt "$part" output "the command's output" ;;
    *.c) excerpts=$((excerpts + 1)); excerpt "$part" "$root/$file" "$file" ;;
    *) echo "FAIL docs/ir.md:$line: a block that nobody checks"; failed=1 ;;
  esac
done
if [ $commands -lt 5 ] || [ $excerpts -lt 5 ]; then echo "FAIL only $commands commands and $excerpts excerpts found"; failed=1; fi

# The comparison is tested too: what is not there, or not in this order, or not next to each other, is no excerpt.
printf 'a %%1 b\nc\nd e f\ng\n' > lines
for bad in 'x' 'd e f\nc' 'c\ng' 'd ... x' 'a %%1' 'c\n...\na %%2 b'; do
  printf "$bad\n" > excerpt
  if awk -f "$here/excerpt.awk" excerpt lines > /dev/null; then echo "FAIL excerpt.awk accepts $bad"; failed=1; fi
done
for good in 'a %%7 b\nc' 'd ... f' 'c\n...\ng' '  c  ' '... b\n...\n... e ...'; do
  printf "$good\n" > excerpt
  if ! awk -f "$here/excerpt.awk" excerpt lines; then echo "FAIL excerpt.awk refuses $good"; failed=1; fi
done
echo "$commands commands, $excerpts excerpts"
exit $failed
