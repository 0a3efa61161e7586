# epilogues.sh BLUC CHECKOUT FOLDER BIN - gradients of biases beside products: by the library, whose fake makes them from their definition, by kernels of
# the program where the library has no way to compute them, and by these unless the run asks for the library's. All learn what the trainer for
# the processor learns. The two models have both forms: weights [out, in], and [in, out] behind batches of sequences.
bin=$4
. "$(dirname "$0")/../e2e/common.sh"
export BLU_EMULATOR_TWINS=$work/twins
mkdir twins text
for i in $(seq 1 200); do echo "line $i of a text that is dull: $((i * i)) is the square of $i."; done > text/train.txt
head -n 60 text/train.txt | tac > text/test.txt
column() { sed -n '/"split":"train"/ s/.*"loss":\([^,}]*\)[,}].*/\1/p' "$1/metrics.jsonl"; }
near() { paste <(column $1) <(column $2) | awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d <= 1e-4 * $1)) bad = 1 } END { exit bad || NR != 10 }' || fail "$1 and $2 learn differently"; }
same_bits() { cmp -s $1/step-10/model.safetensors $2/step-10/model.safetensors || fail "$1 and $2 have other bits"; }
epilogues() { sed -n 's/^device.epilogues=//p' $1/step-10/trainer.txt; }
model() { # name, epilogues, file, options of bluc.. -- options of train..
  local name=$1 sums=$2 model=$3 defs=()
  shift 3
  while [ "$1" != -- ]; do defs+=("$1"); shift; done
  shift
  local steps=(train --steps 10 --log-every 1 --eval-every 0 --quiet "$@") gpu=(env LD_LIBRARY_PATH=$bin/emulator)
  compile "${defs[@]}" $model -o $name.cpu
  compile --target=cuda --arch=sm_90 "${defs[@]}" $model -o $name.gpu
  "$bluc" --target=cuda --emit=opt "${defs[@]}" $model | "${bluc%bluc}blu-opt" -pass=fuse -pass=plan | "$bin/cuda_twins" sm_90 twins cc > log 2>&1 || fail "no twins: $(cat log)"
  run 0 ./$name.cpu "${steps[@]}" --out $name.a
  run 0 "${gpu[@]}" ./$name.gpu "${steps[@]}" --out $name.kernels
  for seed in 1 2; do run 0 "${gpu[@]}" BLU_EMULATOR_SEED=$seed ./$name.gpu "${steps[@]}" --epilogues --out $name.library$seed; done
  for has in 0 2; do run 0 "${gpu[@]}" BLU_EMULATOR_EPILOGUES=$has ./$name.gpu "${steps[@]}" --epilogues --out $name.none$has; done
  for run in kernels library1 none0 none2; do near $name.a $name.$run; done
  same_bits $name.library1 $name.library2
  for has in 0 2; do same_bits $name.kernels $name.none$has; same "$name: epilogues that are refused" "$(epilogues $name.none$has)" ''; done
  same "$name: the library's epilogues" "$(epilogues $name.library1)" $sums
  same "$name: epilogues that nobody asked for" "$(epilogues $name.kernels)" ''
  cmp -s $name.kernels/step-10/model.safetensors $name.library1/step-10/model.safetensors && fail "$name: the library's sums have the kernels' bits"
  # What was chosen is recorded: to go on otherwise is said.
  run 0 "${gpu[@]}" ./$name.gpu train --resume --steps 11 --eval-every 0 --quiet "$@" --out $name.library1
  grep -q 'warning: the checkpoint was made on another device.* device.products' err || fail "$name: it isn't said that other products were chosen"
  run 0 "${gpu[@]}" ./$name.gpu train --epilogues --resume --steps 11 --eval-every 0 --quiet "$@" --out $name.library2
  [ ! -s err ] || grep -v '^emulated' err && fail "$name: a warning without a reason"
}
model fashion 3 "$top/models/fashion.blu" -D B=20 -- --data $data
model gpt_char 4 "$top/models/gpt_char.blu" -D S=16 -D L=1 -D D=32 -D B=2 -- --data text
run 2 ./fashion.cpu train --epilogues --data $data
grep -q 'option --epilogues: this program was compiled for the processor alone' err || fail "no refusal of --epilogues: $(cat err)"
finish
