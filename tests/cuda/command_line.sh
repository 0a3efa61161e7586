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
PATH=$scratch/empty "$bluc" --target=cuda --arch=100 --emit=kernels small.blu > kernels 2> said || fail "no kernels"
for file in ptx kernels; do # CUDA's own folder is looked into whatever PATH is
  if [ -x /usr/local/cuda/bin/ptxas ]; then break; fi
  grep -q '^// kernel: .*; no ptxas was found' $file || fail "it isn't said that there is no ptxas"
done
grep -q '^// exp_.*: 1 x 32, 0' kernels && grep -q 'func.func private @exp_' kernels || fail "--emit=kernels lacks the table or the kernels"
[ ! -s said ] || fail "a warning without a reason: $(cat said)"
"$bluc" --target=cuda --emit=kernels small.blu | "${bluc%bluc}blu-opt" -pass=plan > plan || fail "blu-opt can't read what --emit=kernels prints"

# An assembler that spills: the table says so, the most of all architectures, and a warning names the kernel and its line.
mkdir spills
cat > spills/ptxas <<'END'
#!/bin/sh
while [ $# -gt 1 ]; do case $1 in -arch=sm_80) n=4 ;; -arch=*) n=12 ;; -o) : > "$2" ;; esac; shift; done
echo "ptxas info    : Compiling entry function 'exp_pow_add_4x8' for 'some'"
echo "ptxas info    : Function properties for exp_pow_add_4x8"
echo "    48 bytes stack frame, $n bytes spill stores, 8 bytes spill loads"
echo "ptxas info    : Used 255 registers, 372 bytes cmem[0]"
END
chmod +x spills/ptxas
for stage in kernels ptx; do
  PATH=$scratch/spills:$PATH "$bluc" --target=cuda --arch=80,90 --emit=$stage small.blu > out 2> said || fail "spills are an error"
  grep -q '^// kernel: .*registers, spilled bytes and stack.s bytes of a thread, the most of sm_80, sm_90$' out || fail "no head of the table: $(head -n 1 out)"
  grep -q '^// exp_pow_add_4x8: 1 x 32, 0; 255, 20, 48$' out || fail "another use: $(head -n 2 out)"
  grep -q '^small.blu:1:.*warning.*the kernel `exp_pow_add_4x8` needs more registers than a thread has: it moves 20 bytes to memory and back' said || fail "a spill: $(cat said)"
done
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
