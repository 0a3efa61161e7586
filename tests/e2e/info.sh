# info.sh - what a trainer says about itself is so: first values and optimizer of each parameter, FLOPs and bytes of a run, the learning
# rate of each step, and its memory while it trains.
. "$(dirname "$0")/common.sh"

cat > model.blu << 'END'
import init;
import nn;
import optim;
import schedule;
run lr = 1e-3, steps = 40;
module Net() {
  let hidden = nn.Linear(784, 1024);
  let norm = nn.BatchNorm(1024);
  let output = nn.Linear(1024, 10);
  param shift: float[10] = init.xavier_uniform(2, 4);
  frozen param scale: float[10] = 0.5;
  fn (image: u8[b, 28, 28]) -> float[b, 10] { output(relu(norm(hidden(reshape(f32(image) / 255, b, 784))))) * scale + shift }
}
let net = Net();
train (image: u8[100, 28, 28], label: u8[100]) from idx(dir = "/usr/share/datasets/fashion-mnist") {
  loss = cross_entropy(net(image), label);
  optimizer "*.bias" = optim.sgd(0.1, momentum = 0.9);
  optimizer "shift" = frozen;
  optimizer = optim.adamw(schedule.warmup_cosine(step, lr, 10, steps));
  epochs = 1;
}
entry logits(image: u8[2, 28, 28]) -> float[2, 10] { net(image) }
entry product(x: f32[4, 5], y: f32[5, 6]) -> f32[4, 6] { x @ y }
END
compile model.blu -o model
run 0 ./model --version
same 'the version' "$(cat out)" "model, a trainer made by $("$bluc" --version)"
run 2 ./model --version info
run 0 ./model info
says '^  hidden.weight +f32\[1024,784\] +3211264  uniform\(-0.0357143, 0.0357143\); adamw$'
says '^  hidden.bias +f32\[1024\] +4096  uniform\(-0.0357143, 0.0357143\); sgd of "\*\.bias"$'
says '^  norm.weight +f32\[1024\] +4096  ones; adamw$'
says '^  scale +f32\[10\] +40  0.5; frozen$'
says '^  shift +f32\[10\] +40  uniform\(-1, 1\); frozen of "shift"$'
says '^  hidden.weight:v +f32\[1024,784\] +3211264  zeros$'
says '^  norm.running_var +f32\[1024\] +4096  ones$'
# 4 x 6 sums of 5 products; three matrices
says '^  product +1 launches, 240 flops in matrix products, 296 bytes read and written  \(x: '
# forward, and backward without a gradient of the images: 5 products of 100 x 784 x 1024 and 100 x 1024 x 10
says "^  train .* $((4 * 100 * 784 * 1024 + 6 * 100 * 1024 * 10)) flops in matrix products"

says '^    kept: parameters 3264632, state 6529064, caches, numbers of the run and alignment [0-9]+$'
says "^  numbers of a step's examples +1600$"

# The rates, of steps 0 to 39: 10 of warm-up, then half a cosine.
run 0 ./model train --steps 40 --log-every 1 --out rates --quiet --eval-every 0 --save-every 0
sed -n 's/.*"step":\([0-9]*\),.*"train".*"lr":\([^,]*\),.*/\1 \2/p' rates/metrics.jsonl | awk '
  { s = $1 - 1
    want = s < 10 ? 1e-3 * (s + 1) / 10 : 0.5e-3 * (1 + cos(atan2(0, -1) * (s - 10) / 30))
    if (!($2 - want < 2e-11 && want - $2 < 2e-11)) print "step " s ": lr is " $2 ", not " want }
  END { if (NR != 40) print NR " rates" }' > out
[ -s out ] && fail "rates: $(cat out)"

# Resident memory while it trains and after evaluations and checkpoints, against what `info` adds up.
run 0 ./model info --threads 2
stated=$(sed -n 's/^  in all *\([0-9]*\) .*/\1/p' out)
holds 'bytes in all' "$stated" 'x > 60e6'
./model train --threads 2 --epochs 1000 --eval-every 20 --save-every 20 --out grows > out 2> err < /dev/null &
pid=$!
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status"; }
for name in step-20 step-60; do
  tries=0
  until [ -e "grows/$name" ] || [ $tries -gt 600 ]; do sleep 0.1; tries=$((tries + 1)); done
  holds "kB resident at $name beyond $((stated / 1024)) kB" $(($(resident) - stated / 1024)) 'x > -5120 && x < 5120'
done
kill $pid
wait $pid
finish
