# poison.sh - memory that the plan gives away holds nothing that anybody still reads: filled with NaN after each launch, it changes no bit.
. "$(dirname "$0")/common.sh"
cat > small.blu << 'E_BLU'
import nn;
import optim;
const D = 16;
let embed = nn.Linear(28, D);
let bn = nn.BatchNorm(D);
let attn = nn.CausalSelfAttention(D, heads = 4, context = 28);
let lstm = nn.LSTM(D, D);
let drop = nn.Dropout(0.2);
let output = nn.Linear(D, 10);
train (image: u8[20, 28, 28], label: u8[20]) from idx(dir = "/usr/share/datasets/fashion-mnist") {
  let x = bn(embed(f32(image) / 255));
  let y = lstm(drop(attn(x)));
  loss = cross_entropy(output(mean(y, axis = 1)), label);
  metric accuracy = argmax(output(mean(y, axis = 1))) == i32(label);
  optimizer = optim.adamw(1e-3);
  clip_norm = 1.0;
  stop = 12;
}
E_BLU
for model in small.blu "$top/models/fashion.blu"; do
  compile "$model" -o plain
  compile --poison "$model" -o poisoned
  rm -rf plain.run poisoned.run
  for trainer in plain poisoned; do run 0 ./$trainer train --out $trainer.run --steps 12 --threads 2 --log-every 1; done
  same "checkpoint of $model" "$(hash_of poisoned.run/step-12)" "$(hash_of plain.run/step-12)"
  same "metrics of $model" "$(timeless poisoned.run)" "$(timeless plain.run)"
  run 0 ./poisoned train --out profiled --steps 2 --profile
  says '  poison$'
  rm -rf profiled
done
finish
