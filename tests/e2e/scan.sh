# scan.sh - compiled scans: an LSTM and a GRU over the rows of images learn the same as the same loops written out, with the same bits
# at any number of threads, and their trainers don't grow with the number of rows.
. "$(dirname "$0")/common.sh"
cat > rows.blu << 'E_BLU'
import nn;
import optim;
const UNROLL = false;
const ROWS = 28;
const CHECKPOINT = 0;
let lstm = nn.LSTM(28, 24);
let gru = nn.GRU(24, 16);
let output = nn.Linear(16, 10);
fn each(f, init, xs: f32[b, t, n]) {
  if UNROLL {
    var c = init;
    var ys = xs;
    for k in 0..t {
      let (next, y) = f(c, xs[:, k, ..]);
      c = next;
      ys = if k == 0 { reshape(y, b, 1, shape(y)[1]) } else { concat(ys, reshape(y, b, 1, shape(y)[1]), axis = 1) };
    }
    (c, ys)
  } else {
    scan(f, init, xs, axis = 1, checkpoint = CHECKPOINT)
  }
}
train (image: u8[50, 28, 28], label: u8[50]) from idx(dir = "/usr/share/datasets/fashion-mnist") {
  let x = f32(image[:, 0:ROWS, ..]) / 255;
  let zero = zeros(50, 24);
  let (_, h) = each(lstm.cell, (zero, zero), lstm.x2h(x));
  let (last, _) = each(gru.cell, zeros(50, 16), gru.x2h(h));
  loss = cross_entropy(output(last), label);
  optimizer = optim.adam(3e-3);
  stop = 40;
}
E_BLU
compile rows.blu -o scanned
compile -D UNROLL=true rows.blu -o unrolled
compile -D CHECKPOINT=7 rows.blu -o checkpointed
for trainer in scanned unrolled checkpointed; do run 0 ./$trainer train --out $trainer.run --quiet; done
unrolled=$(last_test loss unrolled.run)
holds 'loss after 40 steps' "$unrolled" 'x > 0.5 && x < 2.2'
for trainer in scanned checkpointed; do # the order of additions differs, and 40 steps of Adam carry that on
  holds "loss of $trainer less $unrolled" "$(last_test loss $trainer.run)" "x > $unrolled - 1e-3 && x < $unrolled + 1e-3"
done
for threads in 1 3; do
  run 0 ./scanned train --threads $threads --out t$threads --quiet
  same "checkpoint with $threads threads" "$(hash_of t$threads/step-40)" "$(hash_of scanned.run/step-40)"
done
run 0 ./scanned train --profile --steps 2 --out profiled
says ' 28  matmul_add_50x48 ' # a product of the body, once for each row

compile -D ROWS=14 rows.blu -o short
grown=$(($(wc -c < scanned) - $(wc -c < short)))
holds 'growth of the trainer from 14 to 28 rows' "$grown" 'x < 8192'
arena_of() { ./"$1" info | sed -n 's/^ *arena *\([0-9]*\) .*/\1/p'; }
holds 'arena with checkpoints less arena without' "$(($(arena_of checkpointed) - $(arena_of scanned)))" 'x < 0'
finish
