#!/usr/bin/env bash
# pack.sh BUILD FOLDER: what tests/gpu/run.sh needs on a machine with a GPU and without Blu: trainers for the processor and for a GPU, data, scripts.
# About 20 MB.
set -euo pipefail
if [ $# != 2 ]; then echo "usage: tests/gpu/pack.sh BUILD FOLDER"; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd) build=$(cd "$1" && pwd)
top=$here/../.. fashion=/usr/share/datasets/fashion-mnist
mkdir -p "$2/images" "$2/text"
cd "$2"
cp "$here/run.sh" "$here/models.txt" "$top"/tests/bench/*_torch.py .
while read -r model data; do
  case $model in ''|'#'*) continue ;; esac
  "$build/bin/bluc" "$top/models/$model.blu" -o $model.cpu
  "$build/bin/bluc" --target=cuda "$top/models/$model.blu" -o $model.gpu
done < models.txt
"$build/bin/bluc" "$here/ops.blu" -o ops.cpu
"$build/bin/bluc" --target=cuda "$here/ops.blu" -o ops.gpu
sed -n 's/^entry \([a-z_]*\)(.*/\1/p' "$here/ops.blu" > ops.txt
# the test images for both splits: they are small, and what is learnt doesn't matter
for kind in images-idx3 labels-idx1; do
  cp $fashion/t10k-$kind-ubyte.gz images/t10k-$kind-ubyte.gz
  cp $fashion/t10k-$kind-ubyte.gz images/train-$kind-ubyte.gz
done
for i in $(seq 1 4000); do echo "line $i of a text that is dull: $((i * i)) is the square of $i."; done > text/train.txt
head -n 600 text/train.txt > text/test.txt
awk 'BEGIN { srand(7); for (r = 0; r < 40; r++) for (c = 0; c < 50; c++) printf "%.6f%s", 4 * rand() - 2, c < 49 ? "," : "\n" }' > x.csv
echo "packed: $(du -sm . | cut -f 1) MB in $2; there: ./run.sh"
