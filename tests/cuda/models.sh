# models.sh BLUC CHECKOUT FOLDER BIN - the models that people start from, compiled for a GPU, on the emulated driver: ten losses of each against the
# trainer for the processor, a checkpoint of one that the other goes on from, and sampled text. Every model is there, most of them smaller by the
# constants that they give for that: batches of a few rows, one or two layers, short sequences.
bin=$4
. "$(dirname "$0")/../e2e/common.sh"
export BLU_EMULATOR_TWINS=$work/twins
mkdir twins text shards
for i in $(seq 1 400); do echo "line $i of a text that is dull: $((i * i)) is the square of $i."; done > text/train.txt
head -n 60 text/train.txt | tac > text/test.txt
# Shards in llm.c's form, of 900 tokens below 300.
for split in train val; do
  awk 'BEGIN { n = 900; printf "\\x%02x\\x%02x\\x%02x\\x%02x\\x01\\0\\0\\0\\x%02x\\x%02x\\0\\0", 136, 216, 52, 1, n % 256, int(n / 256)
    for (i = 12; i < 1024; i++) printf "\\0"
    for (i = 0; i < n; i++) { t = i * i % 300; printf "\\x%02x\\x%02x", t % 256, int(t / 256) } }' > escapes
  printf "$(cat escapes)" > shards/tiny_${split}_000.bin
done

column() { sed -n '/"split":"train"/ s/.*"'"$1"'":\([^,}]*\)[,}].*/\1/p' "$2/metrics.jsonl"; } # metric, run

# Losses and norms of two runs agree. Norms of gradients are differences of larger numbers, and later steps amplify: 1e-3 for them.
agree() { # model, run, run
  for pair in loss:1e-4 grad_norm:1e-3; do
    paste <(column ${pair%:*} $2) <(column ${pair%:*} $3) | awk -v most=${pair#*:} '
      { d = $1 - $2; if (d < 0) d = -d; s = $1 < 0 ? -$1 : $1; if (NF != 2 || !(s > 0) || !(d <= most * s)) { print "step " NR ": " $1 " and " $2; bad = 1 } }
      END { exit bad || NR < 1 }' > difference || { fail "${pair%:*} of $1 differs:"; head -n 3 difference; }
  done
}

# Compiles for both, trains ten steps of each; if `mixed`, also some steps by one, some by the other, and the rest by the first.
model() { # name, options of bluc.. -- options of train..
  local name=$1 defs=() archs=sm_90
  [ -z "$mixed" ] || archs=sm_80,sm_90 # what bluc takes when nothing is said: once or twice is enough, for CUDA's assembler takes most of the time
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do defs+=("$1"); shift; done
  shift
  compile "${defs[@]}" "$top/models/$name.blu" -o $name.cpu
  compile --target=cuda --arch=$archs "${defs[@]}" "$top/models/$name.blu" -o $name.gpu
  "$bluc" --target=cuda --arch=$archs --emit=opt "${defs[@]}" "$top/models/$name.blu" | "${bluc%bluc}blu-opt" -pass=fuse -pass=plan | "$bin/cuda_twins" $archs twins cc > log 2>&1 ||
    fail "no twins of $name: $(cat log)"
  run 0 ./$name.cpu train --steps 10 --log-every 1 --eval-every 0 --out $name.a --quiet "$@"
  run 0 env LD_LIBRARY_PATH=$bin/emulator ./$name.gpu train --steps 10 --log-every 1 --eval-every 0 --out $name.b --quiet "$@"
  [ "$(column loss $name.a | wc -l)" = 10 ] || fail "not ten steps of $name"
  agree $name $name.a $name.b
  tried="$tried $name "
  if [ -n "$mixed" ]; then
    run 0 env LD_LIBRARY_PATH=$bin/emulator ./$name.gpu train --steps 4 --log-every 1 --eval-every 0 --out $name.c --quiet "$@"
    run 0 ./$name.cpu train --resume --steps 7 --out $name.c --quiet "$@"
    run 0 env LD_LIBRARY_PATH=$bin/emulator ./$name.gpu train --resume --steps 10 --out $name.c --quiet "$@"
    agree $name $name.a $name.c
  fi
}

# The text that both trainers sample from one checkpoint, and the logits of its tokens.
sampled() { # name
  local say=(sample --out $1.a --prompt 'line 1' --tokens 9 --seed 3)
  run 0 ./$1.cpu "${say[@]}" --logits $1.cpu.npy
  mv out $1.text
  run 0 env LD_LIBRARY_PATH=$bin/emulator ./$1.gpu "${say[@]}" --logits $1.gpu.npy
  cmp -s out $1.text || fail "$1 on a GPU says '$(cat out)', and not '$(cat $1.text)'"
  for x in cpu gpu; do tail -c +129 $1.$x.npy | od -An -v -tf4 -w4 > $1.$x.logits; done
  paste $1.cpu.logits $1.gpu.logits | awk '
    { d = $1 - $2; if (d < 0) d = -d; s = $1 < 0 ? 1 - $1 : 1 + $1; if (NF != 2 || !(d <= 1e-4 * s)) bad = 1 } END { exit bad || NR < 256 }' || fail "logits of $1 differ"
}

images=(-- --data $data) texts=(-- --data text) tokens=(-- --data shards)
tried=
mixed=1
model softmax "${images[@]}"
model fashion -D B=20 "${images[@]}"
mixed=
model lenet -D B=5 "${images[@]}"
model autoencoder -D B=10 "${images[@]}"
model vit -D B=4 -D L=1 -D D=32 "${images[@]}"
model gpt_char -D S=16 -D L=1 -D D=32 -D B=2 "${texts[@]}"
model llama -D S=16 -D L=1 -D D=32 -D H=4 -D HIDDEN=48 -D B=2 "${texts[@]}"
model moe -D S=16 -D L=1 -D D=32 -D HIDDEN=32 -D B=2 -D E=4 "${texts[@]}"
for name in lstm gru; do model $name -D T=8 -D N=16 -D D=8 -D B=4 "${texts[@]}"; done
for name in gpt_char llama moe lstm gru; do sampled $name; done
model resnet -D B=2 "${images[@]}"
for name in gpt2 gpt2_lora; do model $name -D V=300 -D S=16 -D L=2 -D H=4 -D D=32 -D B=2 "${tokens[@]}"; done
for file in "$top"/models/*.blu; do
  name=$(basename "$file" .blu)
  [[ $tried = *" $name "* ]] || fail "$name was not tried"
done

# GPT-2 as it is compiles and says what it takes; it is too large for the emulator.
compile --target=cuda --arch=sm_90 "$top/models/gpt2.blu" -o gpt2.full
run 0 ./gpt2.full info
says '^parameters +148 tensors, 124439808 elements'

finish
