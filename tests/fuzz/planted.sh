#!/bin/sh
# planted.sh PROGRAMS: the random programs find a fault that is planted in the compiler (planted.c), name what is guilty, and cut the
# programs that show it down to the one op that does. One program in five may keep more: pow(relu(x), x) with its operands swapped differs so
# little that it takes another op to show.
programs=$1 failed=0
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT

# expect FAULT GUILTY OP OPTIONS
expect() {
  BLU_PLANT=$1 "$programs" $4 --count 300 --seed 1 > "$out" 2>&1
  status=$?
  if [ $status != 1 ]; then echo "FAIL $1: exit status $status"; failed=1; fi
  awk -v guilty="$2" -v op="$3" -v fault="$1" '
    function bad(what) { print "FAIL " fault ": " what; wrong = 1 }
    function done() { if (programs && ops != 1) kept++; else if (programs) cut++ }
    /^FAILED: --seed / {
      done()
      programs++; ops = 0
      if (substr($0, length($0) - length(guilty) + 1) != guilty) bad("blamed in " $0)
    }
    / = blu\.constant/ { next }
    / = blu\./ { ops++ }
    ops == 1 && / = blu\./ && $3 != "blu." op { other++ }
    END {
      done()
      if (programs < 2) bad(programs + 0 " programs find it")
      if (cut < 2 || 4 * kept > cut || other > kept) bad(kept + 0 " of " programs " programs are not cut down to " op)
      exit wrong
    }' "$out" || { head -60 "$out"; failed=1; }
}

expect simplify 'simplify (pass 1 of 5)' pow
expect expand 'expand (pass 2 of 5)' pow
expect fuse 'fuse (pass 4 of 5)' pow
expect code 'compiled code' pow
expect gradient 'gradient' tanh
expect code 'compiled code' pow --cuda
for options in '' --cuda; do
  if ! BLU_PLANT=none "$programs" $options --count 20 > "$out"; then echo "FAIL nothing planted, $options: something fails"; cat "$out"; failed=1; fi
done
exit $failed
