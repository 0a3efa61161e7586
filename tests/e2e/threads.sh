# threads.sh - the same trainer, data and seed give the same weights at any number of threads.
. "$(dirname "$0")/common.sh"
compile "$top/models/fashion.blu" -o fashion
for threads in 1 2 3; do
  run 0 ./fashion train --steps 300 --threads $threads --out t$threads --quiet
  same "checkpoint with $threads threads" "$(hash_of t$threads/step-300)" "$(hash_of t1/step-300)"
  same "metrics with $threads threads" "$(timeless t$threads)" "$(timeless t1)"
done
run 0 ./fashion train --steps 300 --out again --quiet
same 'checkpoint of a second run' "$(hash_of again/step-300)" "$(hash_of t1/step-300)"
run 0 ./fashion train --steps 300 --out seed2 --seed 2 --quiet
different 'checkpoints of two seeds' "$(hash_of seed2/step-300)" "$(hash_of t1/step-300)"
for threads in 1 2 3; do
  run 0 ./fashion eval --out t1 --threads $threads
  cp out eval$threads
  same "evaluation with $threads threads" "$(cat eval$threads)" "$(cat eval1)"
done
finish
