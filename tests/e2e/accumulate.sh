# accumulate.sh - a step of several micro-batches is the step of one big batch, to rounding: with weights that differ, a partial last
# step, clipping and momentum. It has the same bits with any number of threads and when it is resumed, and nothing changes in a step
# that is left out.
. "$(dirname "$0")/common.sh"

# The numbers of a safetensors file behind its header.
numbers() { od -An -v -t f4 -w4 -j $((8 + $(od -An -t u8 -N 8 "$1"))) "$1"; }
# Largest difference of two such files, relative to the largest number.
differs() {
  paste <(numbers "$1") <(numbers "$2") | awk 'function abs(x) { return x < 0 ? -x : x }
    { d = abs($1 - $2); if (!(d <= most)) most = d; if (abs($2) > top) top = abs($2) } END { print NR ? most / top : "nothing" }'
}
# Train lines of a metrics file without time: step, loss, norm.
steps_of() { sed -n 's/.*"step":\([0-9]*\),.*"train","loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1/metrics.jsonl"; }

mkdir data
awk 'BEGIN { s = 7
  for (i = 0; i < 53; i++) {
    for (j = 0; j < 6; j++) { s = (s * 1103515245 + 12345) % 2147483648; printf "%.4f,", s / 1073741824 - 1 }
    print i % 3 "," (i < 4 ? 0 : i % 5 == 2 ? 0 : 1 + i % 2)
  } }' > data/train.csv

cat > one.blu << 'END'
import nn;
import optim;
const B = 12;
run lr = 0.05;
let net = nn.Perceptron([6, 300, 3]);
train (x: f32[B, 6], y: i32[B], w: f32[B]) from csv(dir = "data", shuffle = 0) {
  loss = cross_entropy(net(x), y) per w;
  optimizer = optim.adamw(lr, weight_decay = 0.1);
  optimizer "*.bias" = optim.sgd(lr, momentum = 0.9);
  clip_norm = 0.5;
  epochs = 3;
}
END
sed 's/B = 12/B = 4/; s/  epochs = 3;/&\n  accumulate = 3;/' one.blu > many.blu
compile one.blu -o one
compile many.blu -o many
run 0 ./one train --log-every 1 --out one.run --quiet
run 0 ./many train --log-every 1 --out many.run --quiet
same 'checkpoints' "$(ls many.run)" "$(ls one.run)"
holds 'difference of the weights' "$(differs many.run/step-15/model.safetensors one.run/step-15/model.safetensors)" 'x < 2e-5'
holds 'difference of the state' "$(differs many.run/step-15/state.safetensors one.run/step-15/state.safetensors)" 'x < 2e-5'
paste -d ' ' <(steps_of many.run) <(steps_of one.run) | awk 'function far(a, b) { d = a - b; return !(d < 1e-5 * b && -d < 1e-5 * b) }
  $1 != $4 || far($2, $5) || far($3, $6) { print "step " $1 ": loss " $2 " and " $5 ", norm " $3 " and " $6 }
  $6 > 0.5 { clipped++ } END { if (NR != 15 || clipped < 5) print NR " steps, " clipped + 0 " of them clipped" }' > out
[ -s out ] && fail "metrics: $(cat out)"

# any threads, in parts over the end of an epoch (step 5), the same bits
run 0 ./many train --out parts --steps 4 --threads 1 --log-every 1 --quiet
run 0 ./many train --out parts --steps 7 --threads 3 --resume --quiet
run 0 ./many train --out parts --steps 15 --threads 2 --resume --quiet
same 'in parts' "$(hash_of parts/step-15)" "$(hash_of many.run/step-15)"
same 'metrics in parts' "$(timeless parts)" "$(timeless many.run)"
run 1 ./many train --out parts --resume --accumulate 2 --epochs 9
one_line '^error: the checkpoint was made with --accumulate 3: leave --accumulate out to resume$'

# from imported parameters, and without the partial step of an epoch
run 0 ./many export --out many.run --output many.safetensors
run 0 ./many import many.safetensors --out imported
run 0 ./many train --resume --out imported --accumulate 6 --epochs 1 --quiet
same 'steps of 24 rows' "$(ls -d imported/step-*)" "$(printf 'imported/step-0\nimported/step-3')"
sed 's/shuffle = 0/shuffle = 0, drop_last = 1/' many.blu > whole.blu
compile whole.blu -o whole
run 0 ./whole train --out whole.run --epochs 1 --quiet
same 'whole steps of 53 rows' "$(ls -d whole.run/step-*)" whole.run/step-4
run 1 ./whole train --out few.run --accumulate 14
one_line '^error: 53 training examples are less than a batch of 56, and drop_last = 1$'

# another number when run; more than there are examples is one step an epoch
run 0 ./many train --out six --accumulate 6 --log-every 1 --quiet --epochs 1
run 0 "$bluc" -D B=24 one.blu -o one24
run 0 ./one24 train --out one24.run --log-every 1 --quiet --epochs 1
holds 'difference with 6' "$(differs six/step-3/model.safetensors one24.run/step-3/model.safetensors)" 'x < 2e-5'
run 0 ./many train --out all --accumulate 100 --epochs 1 --quiet
same 'one step for all' "$(ls -d all/step-*)" all/step-1
run 0 ./many train --dry-run --accumulate 5 --out dry
says '^data +53 training examples in batches of 20, '
run 1 ./one train --accumulate 2 --out no
one_line '^error: --accumulate 2: this program was compiled without: write `accumulate = 2;` into its train block$'
absent no
sed 's/accumulate = 3/accumulate = parts/; s/^run lr/run parts = 2, lr/' many.blu > set.blu
compile set.blu -o set
run 0 ./set train --out set.run --quiet --set parts=6 --epochs 1
same 'a run value says how many' "$(ls -d set.run/step-*)" set.run/step-3
run 1 ./set train --out set2.run --quiet --set parts=1.5
one_line "^error: the program's setting 'accumulate' is 1.5, which is no whole number from 1 to 1000000"

# the same through a scan
sed 's/^let net = .*/let rnn = nn.LSTM(6, 8);\nlet out = nn.Linear(8, 3);/
  s/^  loss = .*/  let s = rnn(broadcast(reshape(x, B, 1, 6), B, 5, 6));\n  loss = cross_entropy(out(s[.., 4, :]), y) per w;/' one.blu > rnn.blu
sed 's/B = 12/B = 4/; s/  epochs = 3;/&\n  accumulate = 3;/' rnn.blu > rnns.blu
compile rnn.blu -o rnn
compile rnns.blu -o rnns
run 0 ./rnn train --out rnn.run --quiet
run 0 ./rnns train --out rnns.run --quiet
holds 'difference of the LSTMs' "$(differs rnns.run/step-15/model.safetensors rnn.run/step-15/model.safetensors)" 'x < 2e-5'

# one valid example with loss 4, three with loss 2: the mean is 2.5, not 3
mkdir uneven
printf '4,1\n7,0\n7,0\n2,1\n2,1\n2,1\n' > uneven/train.csv
cat > uneven.blu << 'END'
import optim;
module Net() { param p: float[1] = ones; fn (x: float[b]) -> float[b] { x * broadcast(p, shape(x)) } }
let net = Net();
train (x: f32[3], w: f32[3]) from csv(dir = "uneven", shuffle = 0) {
  loss = net(x) per w == 1;
  optimizer = optim.sgd(1.0);
  accumulate = 2;
  epochs = 1;
}
END
compile uneven.blu -o uneven.trainer
run 0 ./uneven.trainer train --out uneven.run --quiet
same 'loss and norm' "$(steps_of uneven.run)" '1 2.5 2.5'
same 'the parameter' "$(numbers uneven.run/step-1/model.safetensors | xargs)" -1.5

# Statistics go on with each micro-batch: as in steps of their own, where nothing is learnt.
cat > norm.blu << 'END'
import nn;
import optim;
run lr = 0.0;
let norm = nn.BatchNorm(6);
train (x: f32[4, 6], _y: i32[4], _w: f32[4]) from csv(dir = "data", shuffle = 0) {
  loss = norm(x) * norm(x);
  optimizer = optim.sgd(lr);
  epochs = 1;
}
END
sed 's/  epochs = 1;/&\n  accumulate = 3;/' norm.blu > norms.blu
compile norm.blu -o norm
compile norms.blu -o norms
run 0 ./norm train --steps 6 --out norm.run --quiet
run 0 ./norms train --steps 2 --out norms.run --quiet
for name in norm norms; do run 0 ./$name export --out $name.run --output $name.safetensors; done
cmp norm.safetensors norms.safetensors || fail 'running statistics differ'
holds 'a running mean' "$(numbers norm.safetensors | awk '$1 != 0 && $1 != 1 { n++ } END { print n }')" 'x == 12'
# A step with one bad micro-batch leaves no trace of the two others.
mkdir spoiled
awk -F , -v OFS=, 'NR == 20 { $1 = 1e30 } 1' data/train.csv > spoiled/train.csv
sed 's/norm(x) \* norm(x)/norm(x) * x/' norms.blu > skips.blu
compile skips.blu -o skips
run 0 ./skips train --data spoiled --nan skip --steps 2 --out skips.run --save-every 1 --quiet
same 'a step left out' "$(hash_of skips.run/step-2)" "$(hash_of skips.run/step-1)"
run 0 ./skips train --data spoiled --nan skip --steps 3 --out skips.run --resume --quiet
different 'the step after it' "$(hash_of skips.run/step-3)" "$(hash_of skips.run/step-2)"
run 1 ./skips train --data spoiled --out stops.run --quiet
one_line "^error: step 2: the gradient of '(weight|bias)' is not finite"

# Random numbers differ between micro-batches: of two masks of 64 some places are kept once.
mkdir equal
printf '1\n1\n' > equal/train.csv
cat > drop.blu << 'END'
import optim;
module Net() {
  param p: float[64] = ones;
  fn (x: float[b]) -> float[b] { sum(if training { dropout(broadcast(p, 1, 64), 0.5) } else { broadcast(p, 1, 64) }, axis = 1) * x }
}
let net = Net();
train (x: f32[1]) from csv(dir = "equal") {
  loss = net(x);
  optimizer = optim.sgd(1.0);
  accumulate = 2;
  epochs = 1;
}
END
compile drop.blu -o drop
run 0 ./drop train --out drop.run --quiet
numbers drop.run/step-1/model.safetensors | awk '{ n[$1 + 0]++ } END { print n[1] + n[0] + n[-1], (n[1] > 4), (n[0] > 4), (n[-1] > 4) }' > out
same 'places kept never, once and twice' "$(cat out)" '64 1 1 1'
finish
