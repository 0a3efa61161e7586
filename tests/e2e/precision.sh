# precision.sh - trainings in bf16, f16 and simulated formats: they learn, have the same bits with any threads and when resumed, a format with
# the widths of a half type is that type, the loss scale changes nothing but what overflows, and parameters travel in half the bytes.
. "$(dirname "$0")/common.sh"

mkdir data
awk 'BEGIN { s = 7
  for (i = 0; i < 64; i++) {
    for (j = 0; j < 6; j++) { s = (s * 1103515245 + 12345) % 2147483648; x[j] = s / 1073741824 - 1; printf "%.4f,", x[j] }
    print (x[0] > x[1]) + (x[2] > 0)
  } }' > data/train.csv

program() { # precision, further settings
  cat << END
import nn;
import optim;
const B = 16;
run gain = 1.0;
module Net() {
  let hidden = nn.Linear(6, 40);
  let norm = nn.LayerNorm(40);
  let output = nn.Linear(40, 3);
  fn (x: float[b, 6]) -> float[b, 3] { output(gelu(norm(hidden(x)))) }
}
let net = Net();
train (x: float[B, 6], y: i32[B]) from csv(dir = "data") {
  let logits = net(x);
  loss = cross_entropy(logits, y) * gain;
  metric accuracy = argmax(logits) == y;
  optimizer = optim.adamw(2e-2);
  clip_norm = 1.0;
  epochs = 15;
  precision = $1;
  ${2-}
}
entry scores(x: float[1, 6]) -> (bits: bf16[1, 3], all: float[1, 3]) { (bf16(net(x)), net(x)) }
END
}
final_loss() { sed -n '/"split":"train"/ s/.*"loss":\([^,}]*\)[,}].*/\1/p' "$1/metrics.jsonl" | tail -n 1; }
weights() { hash_of "$1/step-60"; }

for p in f32 bf16 f16; do
  program $p > $p.blu
  compile $p.blu -o $p
  run 0 ./$p train --out $p.run --threads 2 --quiet
  holds "loss in $p" "$(final_loss $p.run)" 'x < 0.35'
done
for p in bf16 f16; do
  holds "loss in $p against f32" "$(awk -v a="$(final_loss $p.run)" -v b="$(final_loss f32.run)" 'BEGIN { print a - b }')" 'x < 0.05 && x > -0.05'
  run 0 ./$p train --out parts --steps 13 --threads 1 --quiet
  run 0 ./$p train --out parts --resume --threads 3 --quiet
  same "$p in parts" "$(weights parts)" "$(weights $p.run)"
  same "metrics of $p in parts" "$(timeless parts)" "$(timeless $p.run)"
  rm -r parts
done

# the types by their widths
program 'format(exponent = 8, mantissa = 7)' > by_width.blu
compile by_width.blu -o by_width
run 0 ./by_width train --out bf16.again --quiet
same 'bf16 by its widths' "$(weights bf16.again)" "$(weights bf16.run)"
program 'format(exponent = 5, mantissa = 10)' 'loss_scale = 65536;' > by_width.blu
compile by_width.blu -o by_width
run 0 ./by_width train --out f16.again --quiet
same 'f16 by its widths' "$(weights f16.again)" "$(weights f16.run)"
program 'format(exponent = 4, mantissa = 3, saturate = true)' > eight.blu
compile eight.blu -o eight
run 0 ./eight train --out eight.run --quiet
holds 'loss in eight bits' "$(final_loss eight.run)" 'x < 0.6'
different 'eight bits' "$(weights eight.run)" "$(weights bf16.run)"

# a power of two is no rounding: in f32 the scale changes nothing
program f32 'loss_scale = 1024;' > scaled.blu
compile scaled.blu -o scaled
run 0 ./scaled train --out scaled.run --quiet
same 'f32 with a scale' "$(weights scaled.run)" "$(weights f32.run)"
same 'its metrics' "$(timeless scaled.run | sed 's/,"loss_scale":1024//')" "$(timeless f32.run)"

# gradients that overflow at the first scales: halved until they don't, and the schedule doesn't move
run 0 ./f16 train --out over --set gain=16 --log-every 1 --quiet
same 'steps left out' "$(grep -c '"event":"overflow"' over/metrics.jsonl)" "$(sed -n 's/^skipped=//p' over/step-60/trainer.txt)"
holds 'overflows' "$(grep -c '"event":"overflow"' over/metrics.jsonl)" 'x >= 1 && x < 12'
holds 'the scale' "$(sed -n 's/^loss_scale=\([^ ]*\) .*/\1/p' over/step-60/trainer.txt)" 'x < 65536 && x >= 1'
holds 'loss after overflows' "$(final_loss over)" 'x < 16 * 0.5'
run 0 ./f16 train --out over.parts --set gain=16 --log-every 1 --steps 2 --quiet
run 0 ./f16 train --out over.parts --resume --quiet
same 'overflows in parts' "$(timeless over.parts)" "$(timeless over)"
run 1 ./f16 train --out never --set gain=1e9 --quiet
one_line "^error: step [0-9]+: the gradient of '[a-z.]+' is not finite .*loss scale of 1, which can't be halved any more"

# parameters in half the bytes, and back; results of an entry
bytes() { stat -c %s "$1"; }
run 0 ./bf16 export --out bf16.run --output full.safetensors
run 0 ./bf16 export --out bf16.run --output half.safetensors --dtype bf16
grep -q '"dtype":"BF16"' half.safetensors || fail 'no BF16 in the file'
holds 'bytes of bf16' $(($(bytes full.safetensors) - 2 * $(bytes half.safetensors))) 'x < 0 && x > -2000'
run 0 ./bf16 import half.safetensors --out imported
run 0 ./bf16 export --out imported --output again.safetensors --dtype bf16
run 0 cmp half.safetensors again.safetensors
run 1 ./bf16 export --out bf16.run --output x.safetensors --dtype f8
one_line '^error: --dtype f8: parameters can be exported as f32, bf16 or f16$'
run 1 ./bf16 export --out bf16.run --output x.npy --dtype f16
one_line "^error: --dtype is for .safetensors files and llm.c's$"
head -n 3 data/train.csv | cut -d , -f 1-6 > x.csv
run 0 ./bf16 predict x.csv --out bf16.run --output y.npy
for f in y.bits.npy y.all.npy; do grep -qa "'descr': '<f4'" $f || fail "$f is not f4"; done
run 0 cmp <(tail -c 36 y.bits.npy) <(tail -c 36 y.all.npy) # what is kept in bf16 is a number of f32

finish
