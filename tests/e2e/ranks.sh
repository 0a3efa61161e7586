# ranks.sh - compiled programs that several processes train: with one micro-batch each, the bits of one process that accumulates them;
# with more, the same gradient to rounding, and the same bits in every run. Weighted losses, dropout, clipping, running statistics, tokens,
# resuming; and under the launchers that are installed.
. "$(dirname "$0")/common.sh"

numbers() { od -An -v -t f4 -w4 -j $((8 + $(od -An -t u8 -N 8 "$1"))) "$1"; } # of a safetensors file behind its header
differs() {                                                                  # largest difference, relative to the largest number
  paste <(numbers "$1") <(numbers "$2") | awk 'function abs(x) { return x < 0 ? -x : x }
    { d = abs($1 - $2); if (!(d <= most)) most = d; if (abs($2) > top) top = abs($2) } END { print NR ? most / top : "nothing" }'
}
limited() { run "$1" timeout -k 5 200 "${@:2}"; } # nothing may hang

mkdir data
awk 'BEGIN { s = 7
  for (i = 0; i < 53; i++) {
    for (j = 0; j < 6; j++) { s = (s * 1103515245 + 12345) % 2147483648; printf "%.4f,", s / 1073741824 - 1 }
    print i % 3 "," (i < 4 ? 0 : i % 5 == 2 ? 0 : 1 + i % 2)
  } }' > data/train.csv
cp data/train.csv data/test.csv
cat > net.blu << 'END'
import nn;
import optim;
run lr = 0.05;
module Net() {
  let first = nn.Linear(6, 100);
  let second = nn.Linear(100, 3);
  fn (x: float[b, 6]) -> float[b, 3] { let h = relu(first(x)); second(if training { dropout(h, 0.3) } else { h }) }
}
let net = Net();
train (x: f32[4, 6], y: i32[4], w: f32[4]) from csv(dir = "data") {
  loss = cross_entropy(net(x), y) per w;
  metric accuracy = argmax(net(x)) == y;
  optimizer = optim.adamw(lr, weight_decay = 0.1);
  optimizer "*.bias" = optim.sgd(lr, momentum = 0.9);
  clip_norm = 0.5;
  epochs = 3;
  accumulate = 1;
}
END
compile net.blu -o net
limited 0 ./net train --out one --accumulate 3 --log-every 1 --quiet
limited 0 ./net train --out three --ranks 3 --log-every 1 --quiet
same '3 ranks' "$(hash_of three/step-15)" "$(hash_of one/step-15)"
same 'metrics of 3 ranks' "$(timeless three)" "$(timeless one)"
limited 0 ./net train --out parts --ranks 3 --log-every 1 --quiet --steps 4 --threads 2
limited 0 ./net train --out parts --ranks 3 --quiet --steps 11 --resume
limited 0 ./net train --out parts --ranks 3 --quiet --steps 15 --resume --threads 1
same '3 ranks in parts' "$(hash_of parts/step-15)" "$(hash_of three/step-15)"
same 'metrics in parts' "$(timeless parts)" "$(timeless three)"
# Micro-batches that ranks add up for themselves first: other roundings, the same masks.
limited 0 ./net train --out six --accumulate 6 --quiet --epochs 1
limited 0 ./net train --out two --ranks 2 --accumulate 3 --quiet --epochs 1
limited 0 ./net train --out two_again --ranks 2 --accumulate 3 --quiet --epochs 1
holds 'difference of 2 ranks from one' "$(differs two/step-3/model.safetensors six/step-3/model.safetensors)" 'x < 2e-5'
same '2 ranks again' "$(hash_of two_again/step-3)" "$(hash_of two/step-3)"
limited 0 ./net eval --checkpoint three/best
says '^three/best: test  loss '

# one valid example with loss 4 on one rank, three with loss 2 on the other: the mean is 2.5, not 3; and none valid on a third
mkdir uneven
printf '4,1\n7,0\n7,0\n2,1\n2,1\n2,1\n9,0\n9,0\n9,0\n' > uneven/train.csv
cat > uneven.blu << 'END'
import optim;
module Net() { param p: float[1] = ones; fn (x: float[b]) -> float[b] { x * broadcast(p, shape(x)) } }
let net = Net();
train (x: f32[3], w: f32[3]) from csv(dir = "uneven", shuffle = 0) {
  loss = net(x) per w == 1;
  optimizer = optim.sgd(1.0);
  accumulate = 1;
  epochs = 1;
}
END
compile uneven.blu -o uneven.trainer
for ranks in 2 3; do
  limited 0 ./uneven.trainer train --out uneven$ranks --ranks $ranks --steps 1 --log-every 1 --quiet
  same "loss and norm of $ranks ranks" "$(sed -n 's/.*"train","loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2/p' uneven$ranks/metrics.jsonl)" '2.5 2.5'
  same "the parameter of $ranks ranks" "$(numbers uneven$ranks/step-1/model.safetensors | xargs)" -1.5
done

# Running statistics are those of rank 0, which has an epoch's first micro-batch as one process has.
cat > norm.blu << 'END'
import nn;
import optim;
let norm = nn.BatchNorm(6);
train (x: f32[4, 6], _y: i32[4], _w: f32[4]) from csv(dir = "data", shuffle = 0) {
  loss = norm(x) * norm(x);
  optimizer = optim.sgd(0.0);
  epochs = 1;
  accumulate = 1;
}
END
compile norm.blu -o norm
limited 0 ./norm train --out norm1 --accumulate 1 --steps 1 --quiet
limited 0 ./norm train --out norm3 --ranks 3 --steps 1 --quiet
for name in norm1 norm3; do run 0 ./norm export --out $name --output $name.safetensors; done
cmp norm1.safetensors norm3.safetensors || fail 'running statistics are not those of rank 0'

# Tokens in order: rank r of R has the windows r, R + r, 2R + r .. of the shard, as one process that takes them in turns.
awk 'BEGIN { for (i = 0; i < 700; i++) printf "%c", 97 + int(i * i + i / 7) % 26 }' > train.txt
cat > text.blu << 'END'
import nn;
import optim;
let table = nn.Embedding(256, 16);
let out = nn.Linear(16, 256);
train (x: i32[1, 8], y: i32[1, 8]) from text(shuffle = 0) {
  loss = cross_entropy(out(table(x)), y);
  optimizer = optim.adamw(0.01);
  epochs = 1;
  accumulate = 1;
}
END
compile text.blu -o text
limited 0 ./text train --out text1 --accumulate 4 --quiet
limited 0 ./text train --out text4 --ranks 4
says ' tokens/s .* 4 ranks$'
same 'tokens' "$(hash_of text4/step-22)" "$(hash_of text1/step-22)"

# what it takes, and what it doesn't
limited 0 ./net info
says '^  exchanges with other ranks +262144, with --ranks: not counted here$'
sed '/accumulate/d' net.blu > plain.blu
compile plain.blu -o plain
limited 1 ./plain train --ranks 2 --out no
one_line '^error: (rank 1: )?2 ranks add up gradients, and this program was compiled without: write `accumulate = 1;` into its train block$'
absent no
limited 0 ./net train --help
says '^  --ranks N +train with N processes'

# a rank that is killed ends the others
./net train --out killed --ranks 3 --epochs 100000000 --eval-every 0 --save-every 0 --rank-timeout 20 > out 2> err < /dev/null &
pid=$!
until [ -s killed/metrics.jsonl ] || ! kill -0 $pid 2> /dev/null; do sleep 0.05; done
kill -9 "$(ps -o pid= --ppid $pid | tail -n 1)"
wait $pid
same 'exit code after rank 2 was killed' $? 1
same 'errors' "$(wc -l < err)" 1
complains '^error: rank 2 was lost: .*: killed by signal 9$'

# the launchers that are here
launched() { # NAME, COMMAND.. up to the trainer
  limited 0 "${@:2}" ./net train --out "$1" --quiet
  same "$1: weights" "$(hash_of "$1/step-15")" "$(hash_of one/step-15)"
}
if command -v mpirun.openmpi > out; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  launched openmpi mpirun.openmpi -n 3
else
  echo 'SKIPPED: Open MPI is not installed'
fi
if command -v mpirun.mpich > out; then launched mpich mpirun.mpich -n 3; else echo 'SKIPPED: MPICH is not installed'; fi
if command -v torchrun > out; then
  launched torchrun torchrun --standalone --no-python --nproc-per-node 3
else
  echo 'SKIPPED: torchrun is not installed'
fi
finish
