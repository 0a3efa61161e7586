# command_line.sh BLUC - what bluc says of targets and architectures.
bluc=$1 failed=0
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
printf 'entry f(x: float[4, 8]) -> float[4, 8] { exp(x) + pow(x, 2.5) }\n' > small.blu
fail() { echo "FAIL $*"; failed=1; }
# refuses PATTERN OPTIONS: exit status 2, one line.
refuses() {
  pattern=$1
  shift
  "$bluc" "$@" small.blu > out 2> said
  [ $? -eq 2 ] || fail "$*: exit status"
  [ "$(wc -l < said)" -eq 1 ] || fail "$*: more than one line"
  grep -q -- "$pattern" said || { fail "$*: $(cat said)"; }
  [ ! -e small ] || fail "$* left a file"
}
refuses '--target takes cpu or cuda, not .rocm.' --target=rocm
refuses '--arch goes with --target=cuda' --arch=sm_90
refuses "--arch takes some of sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_120, .*not 'sm_70'" --target=cuda --arch=sm_70
refuses "not 'sm_80,'" --target=cuda --arch=sm_80,
refuses "not ''" --target=cuda --arch=
refuses '--emit=ptx goes with --target=cuda' --emit=ptx

# Without CUDA's assembler PTX is all there is, and it is said for which GPUs; names may lack their sm_.
mkdir empty
PATH=$scratch/empty "$bluc" --target=cuda --arch=100,90 --emit=ptx small.blu > ptx || fail "no PTX"
grep -q '^\.target sm_90' ptx || fail "not for the oldest architecture"
grep -q '^// exp_.*: 1 x 32, 0' ptx || fail "no table of kernels"
# Half types are the processor's: the user's line says so.
printf 'entry f(x: bf16[4]) -> bf16[4] { x * x }\n' > half.blu
"$bluc" --target=cuda half.blu -o half > out 2> said
[ $? -eq 1 ] || fail "a half type: exit status"
grep -q 'half.blu:1:.*bf16 has no code for CUDA yet' said || fail "a half type: $(cat said)"
[ ! -e half ] || fail "a half type left a file"
# The same bytes every time, and other bytes for other architectures.
for i in 1 2; do "$bluc" --target=cuda --arch=sm_80 --emit=obj small.blu -o $i.o || fail "no object"; done
cmp 1.o 2.o || fail "another object the second time"
"$bluc" --target=cuda --arch=sm_90 --emit=obj small.blu -o 3.o || fail "no object"
! cmp -s 1.o 3.o || fail "the same object for another architecture"
# Stages and their times.
"$bluc" --target=cuda --time --emit=ptx small.blu 2> said > ptx
grep -q ' ms  ptx$' said && grep -q ' ms  ptxas$' said || fail "--time doesn't show ptx and ptxas"
"$bluc" --target=cuda --emit=llvm small.blu > llvm || fail "no LLVM IR"
grep -q 'ptx_kernel void @' llvm && grep -q '@blu_program = constant' llvm || fail "LLVM IR lacks a part"
# The assembler's refusal is one line and leaves nothing.
mkdir bad
printf '#!/bin/sh\necho "ptxas fatal   : no such luck"\nexit 1\n' > bad/ptxas
chmod +x bad/ptxas
PATH=$scratch/bad:$PATH "$bluc" --target=cuda --emit=obj small.blu -o bad.o 2> said
[ $? -eq 1 ] || fail "a refusal of ptxas: exit status"
grep -q "ptxas can't compile the kernels for sm_80: fatal   : no such luck" said || fail "a refusal of ptxas: $(cat said)"
[ ! -e bad.o ] || fail "a refusal of ptxas left a file"
exit $failed
