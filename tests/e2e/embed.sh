# embed.sh - a trainer that carries parameters: eval, predict and export work without a checkpoint, a new training starts from them, and a
# file that is not exactly the program's is refused with the tensor's name.
. "$(dirname "$0")/common.sh"

mkdir data
awk 'BEGIN { s = 5
  for (i = 0; i < 90; i++) {
    for (j = 0; j < 6; j++) { s = (s * 1103515245 + 12345) % 2147483648; printf "%.4f,", s / 1073741824 - 1 }
    print i % 3
  } }' > all.csv
head -n 60 all.csv > data/train.csv
tail -n 30 all.csv > data/test.csv
cut -d , -f 1-6 data/test.csv > inputs.csv
cat > model.blu << 'END'
import nn;
import optim;
run lr = 0.05;
module Net() {
  let norm = nn.BatchNorm(6);
  let fc = nn.Perceptron([6, 16, 3]);
  frozen param scale: f32[3] = 2.0;
  fn (x: f32[b, 6]) -> f32[b, 3] { fc(norm(x)) * scale }
}
let net = Net();
train (x: f32[10, 6], y: i32[10]) from csv(dir = "data") {
  loss = cross_entropy(net(x), y);
  optimizer = optim.adamw(lr);
  epochs = 4;
}
entry scores(x: f32[4, 6]) -> f32[4, 3] { net(x) }
END
compile model.blu -o model
run 0 ./model train --quiet --out first
run 0 ./model export --out first --output weights.safetensors
compile --embed weights.safetensors model.blu -o known
compile --embed=weights.safetensors model.blu -o again
cmp known again || fail 'not the same bytes twice'
holds 'bytes that it grew by' $(($(stat -c %s known) - $(stat -c %s model) - $(stat -c %s weights.safetensors))) 'x > -8192 && x < 8192'

# without any checkpoint, in another folder; the file itself is not needed any more
mv weights.safetensors kept.safetensors
mkdir away
cp known away
run 0 ./model eval --out first
wanted=$(sed 's/^[^:]*: //' out)
(cd away && run 0 ./known eval --data ../data && says '^embedded parameters: test  loss ' && same 'eval' "$(sed 's/^[^:]*: //' out)" "$wanted"
  exit $failures) || failures=$((failures + 1))
run 0 ./model predict inputs.csv --out first
mv out predicted
run 0 away/known predict inputs.csv
cmp out predicted || fail 'predict differs'
run 0 away/known export --output back.safetensors
says '^wrote the parameters of this program to back.safetensors$'
cmp back.safetensors kept.safetensors || fail 'export gives other bytes'
run 0 away/known info
says '^embedded +[0-9]+ bytes: a new training, '
run 1 ./model predict inputs.csv --out nowhere

# a new training starts from them, as one from an imported checkpoint does; a checkpoint counts more
run 0 ./known train --epochs 2 --quiet --out second
run 0 ./model import kept.safetensors --out third
run 0 ./model train --resume --epochs 2 --quiet --out third
same 'training on' "$(hash_of second/step-12)" "$(hash_of third/step-12)"
different 'training on' "$(hash_of second/step-12)" "$(hash_of first/step-24)"
run 0 ./known eval --out second
says '^second/step-12: test  loss '
run 1 ./known eval --checkpoint nowhere
one_line '^error: cannot open nowhere/model.safetensors'

# 40 MB of parameters: they are in memory once, also while the trainer starts
cat > wide.blu << 'END'
import nn;
import optim;
let fc = nn.Perceptron([6, 3000, 3000, 3]);
train (x: f32[10, 6], y: i32[10]) from csv(dir = "data") {
  loss = cross_entropy(fc(x), y);
  optimizer = optim.sgd(0.01);
  epochs = 100000;
}
END
compile wide.blu -o wide
run 0 ./wide train --steps 1 --quiet --out wide.run
run 0 ./wide export --out wide.run --output wide.safetensors
compile --embed wide.safetensors wide.blu -o wide
run 0 ./wide info --threads 2
stated=$(sed -n 's/^  in all *\([0-9]*\) .*/\1/p' out)
./wide train --threads 2 --out wider --eval-every 0 --save-every 0 --log-every 2 > log 2>&1 < /dev/null &
pid=$!
tries=0
until grep -q step log || [ $tries -gt 300 ]; do sleep 0.1; tries=$((tries + 1)); done
most=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
kill $pid
wait $pid
holds "kB resident at most beyond $((stated / 1024)) kB" $((most - stated / 1024)) 'x > -5120 && x < 5120'

# files that are not exactly this program's
refuses() { # file, pattern
  run 1 "$bluc" --embed "$1" model.blu -o refused
  complains "$2"
  [ ! -s out ] || fail 'output beside the error'
  absent refused
}
refuses nowhere.safetensors '^bluc: --embed cannot open nowhere.safetensors: No such file or directory$'
head -c 300 kept.safetensors > cut.safetensors
refuses cut.safetensors '^bluc: --embed cut.safetensors: not a valid safetensors file: '
refuses first/step-24/model.safetensors '^  norm.running_mean: missing in the file$'
sed 's/"scale"/"stale"/' kept.safetensors > renamed.safetensors
refuses renamed.safetensors '^  scale: missing in the file$'
complains '^  stale: f32\[3\] in the file, missing in the program$'
# A file of one number, under any name, type and shape.
one_number() { # name, type, shape
  local header="{\"$1\":{\"dtype\":\"$2\",\"shape\":[$3],\"data_offsets\":[0,4]}}"
  printf '%b%s\0\0\200\077' "\\$(printf %03o ${#header})\0\0\0\0\0\0\0" "$header"
}
cat > small.blu << 'END'
module Net() {
  param w: f32[1] = ones;
  fn (x: f32[2]) -> f32[2] { x * broadcast(w, 2) }
}
let net = Net();
entry times(x: f32[2]) -> f32[2] { net(x) }
END
one_number w F32 1 > small.safetensors
compile --embed small.safetensors small.blu -o small
one_number w F32 1,1 > shape.safetensors
run 1 "$bluc" --embed shape.safetensors small.blu -o refused
complains '^  w: f32\[1\] in the program, f32\[1,1\] in the file$'
one_number w I32 1 > type.safetensors
run 1 "$bluc" --embed type.safetensors small.blu -o refused
complains '^  w: f32\[1\] in the program, i32\[1\] in the file$'
one_number w BF32 1 > unknown.safetensors
run 1 "$bluc" --embed unknown.safetensors small.blu -o refused
complains "^bluc: --embed unknown.safetensors: tensor 'w': "
absent refused
run 2 "$bluc" --embed kept.safetensors --emit=opt model.blu
one_line '^bluc: --embed is for making a trainer'
finish
