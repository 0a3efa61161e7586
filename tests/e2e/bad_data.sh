# bad_data.sh - data that is not what it should be: one line with the place, exit status 1, and no output folder.
. "$(dirname "$0")/common.sh"

be32() { printf "\\$(printf %03o $(($1 >> 24 & 255)))\\$(printf %03o $(($1 >> 16 & 255)))\\$(printf %03o $(($1 >> 8 & 255)))\\$(printf %03o $(($1 & 255)))"; }

# A split of 200 blank images; all labels are one of the ten digits.
make_split() { # folder, train or t10k, height, width, label
  { be32 0x803; be32 200; be32 "$3"; be32 "$4"; head -c $((200 * $3 * $4)) /dev/zero; } > "$1/$2-images-idx3-ubyte"
  { be32 0x801; be32 200; head -c 200 /dev/zero | tr '\0' "\\$(printf %03o "$5")"; } > "$1/$2-labels-idx1-ubyte"
}
make() { # folder, height, width, label
  mkdir "$1"
  make_split "$1" train "$2" "$3" "$4"
  make_split "$1" t10k "$2" "$3" "$4"
}
# The trainer refuses the folder, with one line that says this.
refuses() { # trainer, folder, pattern
  run 1 "./$1" train --data "$2" --out refused
  one_line "^error: .*$3"
  absent refused
}

compile "$top/models/softmax.blu" -o softmax
make good 28 28 9
run 0 ./softmax train --data good --out good.run --epochs 1 --quiet

refuses softmax nowhere 'nowhere/train-images-idx3-ubyte: no such file'
mkdir empty
refuses softmax empty 'empty/train-images-idx3-ubyte: no such file'

mkdir truncated && cp "$data"/*.gz truncated
head -c 1000000 "$data/train-images-idx3-ubyte.gz" > truncated/train-images-idx3-ubyte.gz
refuses softmax truncated 'truncated/train-images-idx3-ubyte.gz: the file is truncated'
cp "$data/train-images-idx3-ubyte.gz" truncated
head -c 1000 "$data/train-labels-idx1-ubyte.gz" > truncated/train-labels-idx1-ubyte.gz
refuses softmax truncated 'truncated/train-labels-idx1-ubyte.gz: the file is truncated'
rm -rf truncated

make foreign 28 28 9
cp "$top/LICENSE" foreign/train-images-idx3-ubyte
refuses softmax foreign 'foreign/train-images-idx3-ubyte: not an IDX file of images'
make swapped 28 28 9
cp swapped/train-images-idx3-ubyte swapped/train-labels-idx1-ubyte
refuses softmax swapped 'swapped/train-labels-idx1-ubyte: not an IDX file of labels'
make short 28 28 9
head -c 100 good/t10k-images-idx3-ubyte > short/t10k-images-idx3-ubyte
refuses softmax short 'short/t10k-images-idx3-ubyte: the file is truncated'

make narrow 27 28 9
refuses softmax narrow "narrow/train-images-idx3-ubyte: .*27x28.*'image' is u8\[(128,)?28,28\]"
make label10 28 28 10
refuses softmax label10 "label10/train-labels-idx1-ubyte: .* index 0 is 10, but 'label' must be less than 10"

# a model of nine classes meets the tenth in the real data
sed 's/784, 10)/784, 9)/; s/float\[1, 10\]/float[1, 9]/' "$top/models/softmax.blu" > nine.blu
compile nine.blu -o nine
refuses nine "$data" "train-labels-idx1-ubyte.gz: .* index [0-9]+ is 9, but 'label' must be less than 9"

# a folder that can't be written: below a file, so that root can't either
run 1 ./softmax train --data good --out good.run/metrics.jsonl/run
one_line '^error: cannot create folder good.run/metrics.jsonl/run: Not a directory'
# and a checkpoint of another model
make label8 28 28 8
run 1 ./nine eval --data label8 --out good.run
complains '^error: good.run/step-[0-9]+/model.safetensors does not fit this program:'
# a NaN among the examples is no shape or label to be checked: the step that reads it names it, without a sign, and stays out
cat > line.blu <<'END'
import nn;
import optim;
let fc = nn.Linear(2, 1);
train (x: f32[4, 2], y: f32[4]) from npy(shuffle = 0) {
  let d = reshape(fc(x), 4) - y;
  loss = d * d;
  optimizer = optim.sgd(0.1);
  epochs = 1;
}
entry value(x: f32[1, 2]) -> f32[1] { reshape(fc(x), 1) }
END
compile line.blu -o line
cat > maker.blu <<'END'
entry holed(x: f32[1, 2]) -> f32[1, 2] { where(x == 7, sqrt(-x), x) }
entry first(x: f32[1, 2]) -> f32[1] { x[:, 0] }
END
compile maker.blu -o maker
mkdir holes lines
for i in 1 2 3 4 5 6 8 9 10 11; do echo "$i,0.5"; done > rows.csv
sed '7s/.*/7,0.5/' rows.csv > seven.csv
for name in lines holes; do
  run 0 ./maker predict --entry first rows.csv --output $name/y.npy
  run 0 ./maker predict --entry holed $([ $name = holes ] && echo seven.csv || echo rows.csv) --output $name/x.npy
done
run 1 ./line train --data holes --out holes.run --quiet --eval-every 0
one_line "^error: step 2: the loss is nan; the gradient of 'weight' .*; the data 'x' holds nan in its example 6 \(from 0\); parameters are left"
run 0 ./line train --data lines --out lines.run --quiet --eval-every 0
# what predict is given that is no file
run 0 ./line predict --out lines.run --entry value rows.csv
run 1 ./line predict --out lines.run --entry value value rows.csv
one_line "^error: 'value' is an entry: --entry value runs it"
run 1 ./line predict --out lines.run --entry value y=rows.csv
one_line "^error: 'y=rows.csv': entry value has no input 'y'"
run 1 ./line predict --out lines.run --entry value rows.npy
one_line '^error: rows.npy: No such file'

finish
