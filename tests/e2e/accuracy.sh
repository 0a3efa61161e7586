# accuracy.sh BLUC CHECKOUT FOLDER [SEED...] - the models that people start from learn what they promise, on the real data; with the word
# `convolutions` in the place of seeds, those that take minutes.
. "$(dirname "$0")/common.sh"
shift 3
[ $# -gt 0 ] || set -- 1

reaches() { # model, least test accuracy, seed
  run 0 "./$1" train --out "$1.$3" --seed "$3" --quiet
  same "$1 --quiet" "$(cat out err)" ''
  holds "test accuracy of $1 with seed $3" "$(last_test accuracy "$1.$3")" "x >= $2 && x < 1"
  holds "test loss of $1 with seed $3" "$(last_test loss "$1.$3")" 'x > 0 && x < 1'
  echo "$1, seed $3: test accuracy $(last_test accuracy "$1.$3")"
  # the checkpoint is the model that was measured
  run 0 "./$1" eval --out "$1.$3"
  same "accuracy of $1's checkpoint" "$(sed -n 's/.*accuracy \([0-9.]*\) .*/\1/p' out)" \
    "$(printf %.6f "$(last_test accuracy "$1.$3")")"
}

if [ "$1" = convolutions ]; then
  compile "$top/models/lenet.blu" -o lenet
  reaches lenet 0.915 1
  compile "$top/models/resnet.blu" -o resnet
  reaches resnet 0.925 1
  finish
fi
compile "$top/models/fashion.blu" -o fashion
compile "$top/models/softmax.blu" -o softmax
for seed; do
  reaches fashion 0.885 "$seed"
  reaches softmax 0.83 "$seed"
done
finish
