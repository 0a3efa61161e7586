#!/usr/bin/env bash
# pack.sh [--smoke] BUILD FOLDER: what tests/gpu/run.sh needs on a machine with a GPU and without Blu: trainers for the processor and for a GPU,
# data, scripts. About 40 MB. --smoke: few and small models, and twins of their kernels for the emulator of tests/cuda (FOLDER/twins).
set -euo pipefail
list=models.txt
if [ "${1:-}" = --smoke ]; then list=smoke.txt; shift; fi
if [ $# != 2 ]; then echo "usage: tests/gpu/pack.sh [--smoke] BUILD FOLDER"; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd) build=$(cd "$1" && pwd)
top=$here/../.. fashion=/usr/share/datasets/fashion-mnist
mkdir -p "$2/images" "$2/text" "$2/shards" "$2/numbers" "$2/twins"
cd "$2"
cp "$here/run.sh" "$here/peers.py" .
grep -v '^#' "$here/$list" > models.txt

pack() { # name, arguments of bluc..
  local name=$1 archs=()
  shift
  "$build/bin/bluc" "$@" -o "$name.cpu"
  if [ $list = smoke.txt ]; then
    archs=(--arch=sm_90)
    "$build/bin/bluc" --target=cuda "${archs[@]}" --emit=opt "$@" | "$build/bin/blu-opt" -pass=fuse -pass=plan | "$build/tests/cuda/cuda_twins" sm_90 twins cc
  fi
  "$build/bin/bluc" --target=cuda "${archs[@]}" "$@" -o "$name.gpu"
}

while read -r name _ _ _ program options; do
  # shellcheck disable=SC2086
  pack "$name" $options "$top/$program"
done < models.txt
pack ops "$here/ops.blu"
sed -n 's/^entry \([a-z_0-9]*\)(.*/\1/p' "$here/ops.blu" > ops.txt

# the test images for both splits: they are small, and what is learnt doesn't matter
for kind in images-idx3 labels-idx1; do
  cp $fashion/t10k-$kind-ubyte.gz images/t10k-$kind-ubyte.gz
  cp $fashion/t10k-$kind-ubyte.gz images/train-$kind-ubyte.gz
done
for i in $(seq 1 4000); do echo "line $i of a text that is dull: $((i * i)) is the square of $i."; done > text/train.txt
head -n 600 text/train.txt > text/test.txt
# Tokens as llm.c writes them: of all ids of GPT-2's, or of 300.
if [ $list = smoke.txt ]; then most=300; else most=50257; fi
for split in train val; do
  perl -e 'my ($n, $most) = @ARGV; srand 7; print pack("V256", 20240520, 1, $n), pack("v*", map { int rand $most } 1 .. $n)' 200000 $most > shards/random_${split}_000.bin
done
cc -O2 -std=gnu11 -pthread "$top/tests/bench/machine.c" -o machine
for split in '' test_; do
  ./machine npy "numbers/${split}image.npy" f4 1 640 784
  ./machine npy "numbers/${split}label.npy" u1 10 640
done
rm machine
awk 'BEGIN { srand(7); for (r = 0; r < 40; r++) for (c = 0; c < 50; c++) printf "%.6f%s", 4 * rand() - 2, c < 49 ? "," : "\n" }' > x.csv
echo "packed: $(du -sm . | cut -f 1) MB in $2; there: ./run.sh"
