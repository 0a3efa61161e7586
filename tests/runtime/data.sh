# data.sh BIN SCRATCH - every source of data gives the same examples, in the right order; files that lie are refused; the
# same readers for `predict`.
. "$(dirname "$0")/common.sh"
make=$bin/make_files
metric() { sed -n 's/.*"step":'"$1"',.*"split":"train".*"'"$2"'":\([^,}]*\).*/\1/p' "$3/metrics.jsonl"; }

# --- idx, npy and csv: the same images, the same weights ---
mkdir idx npy csv
"$bin/make_idx" idx 83 21 4 3
"$make" npy npy 83 4 3
"$make" npy npy 21 4 3 test_
"$make" csv csv 83 4 3
expect 0 '^done: step 22' $fake train --data idx --out idx.run
expect 0 '^done: step 22' "$bin/fake_npy" train --data npy --out npy.run
same 'npy' "$(hash_of npy.run/step-22)" "$(hash_of idx.run/step-22)"
expect 0 '^done: step 22' "$bin/fake_csv" train --data csv --out csv.run
same 'csv' "$(hash_of csv.run/step-22)" "$(hash_of idx.run/step-22)"
gzip -k csv/train.csv npy/*.npy && mkdir packed && mv csv/*.gz npy/*.gz packed
expect 0 '^done: step 22' "$bin/fake_npy" train --data packed --out npy_packed.run
same 'npy.gz' "$(hash_of npy_packed.run/step-22)" "$(hash_of idx.run/step-22)"
expect 0 '^done: step 22' "$bin/fake_csv" train --data packed --out csv_packed.run
same 'csv.gz' "$(hash_of csv_packed.run/step-22)" "$(hash_of idx.run/step-22)"

# --- pipes: one that gives, one that stalls, one that nobody opens ---
mkdir pipes && mkfifo pipes/train.csv
cat csv/train.csv > pipes/train.csv &
expect 0 '^done: step 22' "$bin/fake_csv" train --data pipes --out pipe.run
same 'csv from a pipe' "$(hash_of pipe.run/step-22)" "$(hash_of idx.run/step-22)"
(head -c 100 csv/train.csv; sleep 3) > pipes/train.csv &
expect 1 '^error: pipes/train.csv: no data came for 1 seconds (--timeout' \
  "$bin/fake_csv" train --data pipes --out pipe2.run --timeout 1
expect 1 '^error: pipes/train.csv: no data came for 1 seconds' "$bin/fake_csv" train --data pipes --out pipe2.run --timeout 1
[ -e pipe2.run ] && fail 'a stalled pipe left an output folder'

# --- splits: held out of the training data; the last batch dropped; the order of the file ---
expect 0 '^done: step 10' "$bin/fake_csv_split" train --data csv --out split.run
expect 0 'test  loss [0-9.]*  accuracy [0-9.]*  (5 examples)$' "$bin/fake_csv_split" eval --data csv --out split.run
same 'lines of test' "$(grep -c '"split":"test"' split.run/metrics.jsonl)" 2
# 5 of 83 are held out, 78 are trained on in batches of 8, the last of 6 is dropped: 9 steps an epoch and one more
expect 0 ' step 9/9 ' "$bin/fake_csv_split" train --data csv --out split9.run --epochs 1
mkdir few && head -n 6 csv/train.csv > few/train.csv
expect 1 'the data has 5 examples: holdout = 5 leaves none to train on' \
  "$bin/fake_csv_split" train --data few --out few.run
head -n 8 csv/train.csv > few/train.csv
expect 1 '2 training examples are less than a batch of 8, and drop_last = 1' \
  "$bin/fake_csv_split" train --data few --out few.run
expect 1 "data source csv has no argument 'holdot', did you mean 'holdout'?" "$bin/fake_csv_wrong" train --data csv

# --- csv that is not what it should be ---
bad() { printf "$2" > few/train.csv; expect 1 "$1" "$bin/fake_csv" train --data few --out few.run; }
row=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
bad 'few/train.csv: the file is empty' ''
bad "few/train.csv:2: 16 columns, but the first line has 17" "$row,0\n$row\n"
bad "few/train.csv:2: column 17 holds 'x', which is not a finite number" "$row,0\n$row,x\n"
bad "few/train.csv:2: column 17 holds 'nan'" "$row,0\n$row,nan\n"
bad "few/train.csv:2: a quote is not closed" "$row,0\n$row,\"0\n"
bad "few/train.csv: the value at index 1 (line 2) is 3, but 'label' must be less than 3" "$row,0\n$row,3\n"
bad "few/train.csv: the value at index 0 (line 1) is 0.5, but 'label' takes whole numbers from 0 to 2" "$row,0.5\n"
bad "few/train.csv: 'label' takes 1 columns from number 16" "$row\n"

# --- npy that is not what it should be; each case changes bytes of a good header ---
rm -f few/* && cp npy/* few
bad_npy() { # pattern, sed script on the header
  LC_ALL=C sed "$2" npy/image.npy > few/image.npy
  expect 1 "^error: few/image.npy: $1" "$bin/fake_npy" train --data few --out few.run
}
bad_npy 'not an npy file' 's/NUMPY/NUMPI/'
bad_npy 'not a valid npy file: it is in Fortran order' 's/False/True /'
bad_npy "not a valid npy file: its type '|O' is not supported: objects" "s/'|u1'/'|O' /"
bad_npy "not a valid npy file: its type '>f4' is not supported: it is big-endian" "s/|u1/>f4/"
bad_npy 'the file is truncated' 's/(83, 4, 4)/(83, 4, 9)/'
bad_npy 'the file has trailing bytes' 's/(83, 4, 4)/(82, 4, 4)/'
bad_npy 'not a valid npy file: an entry is given twice' "s/'shape'/'descr'/"
bad_npy 'not a valid npy file: its shape overflows' 's/(83, 4, 4), } \{20\}/(999999999999, 99999999999, 4), }/'
bad_npy "an example is 8x2 here, but the program's 'image' is f32\[8,4,4\]" 's/(83, 4, 4)/(83, 8, 2)/'

# --- tokens: shards of llm.c and nanoGPT, text ---
mkdir shards raw text
"$make" llmc16 shards/a_train_0.bin 17 0
"$make" llmc32 shards/a_train_1.bin 14 100
"$make" llmc16 shards/a_val_0.bin 9 50
tokens=$bin/fake_tokens
# windows of 4: tokens 0-3, 4-7, 8-11, 12-15 of the first shard, 100-103, 104-107, 108-111 of the second; 7 in batches of 2
expect 0 '^done: step 4' $tokens train --data shards --out shards.run --log-every 1
says '^epoch 1  step 4/4  loss 109.5000  shifted 1.0000  [0-9]* tokens/s$'
for pair in 1:3.5 2:11.5 3:103.5 4:109.5; do
  same "mean token of step ${pair%:*}" "$(metric "${pair%:*}" loss shards.run)" "${pair#*:}"
  same 'y is x, one further' "$(metric "${pair%:*}" shifted shards.run)" 1
done
same 'validation' "$(sed -n 's/.*"test","loss":\([0-9.]*\),.*/\1/p' shards.run/metrics.jsonl)" 53.5
# a state of the model goes with the parameters
expect 0 '^wrote' $tokens export --out shards.run --output tokens.npy
same 'exported' "$(ls tokens.*.npy | xargs)" 'tokens.count.npy tokens.seen.npy'
same 'examples seen' "$(tail -c 8 tokens.count.npy | od -An -tf8 | tr -d ' ')" 7
expect 0 '^wrote' $tokens export --out shards.run --output tokens.safetensors
expect 0 '^made' $tokens import tokens.safetensors --out imported
expect 0 '^wrote' $tokens export --out imported --output again.safetensors
cmp tokens.safetensors again.safetensors || fail 'imported and exported again: other bytes'
"$make" raw16 raw/train.bin 17 0 && "$make" raw16 raw/val.bin 9 50
expect 0 '^done: step 2' "$bin/fake_raw" train --data raw --out raw.run --log-every 1
same 'raw' "$(metric 2 loss raw.run)" 11.5
printf 'Hello, world, again' > text/train.txt
expect 0 '^done: step 2' "$bin/fake_text" train --data text --out text.run --log-every 1
same 'mean byte of "Hello, w"' "$(metric 1 loss text.run)" 86.875
expect 1 'fake_tokens has no argument\|data source tokens has no argument' "$bin/fake_tokens_wrong" train --data shards
spoil() { rm -rf few && cp -r shards few; }
spoiled() { expect 1 "$1" $tokens train --data few --out few.run; }
spoil; head -c 1050 shards/a_train_0.bin > few/a_train_0.bin
spoiled '^error: few/a_train_0.bin: its header promises 17 tokens, which take 1058 bytes with the header, but it has 1050'
spoil; head -c 1000 shards/a_train_0.bin > few/a_train_0.bin
spoiled '^error: few/a_train_0.bin: not a token shard: it has only 1000 bytes, less than the header of 1024'
spoil; cp "$make" few/a_train_1.bin
spoiled '^error: few/a_train_1.bin: not a token shard: it starts with magic'
spoil; printf '\002' | dd of=few/a_train_1.bin bs=1 seek=4 conv=notrunc 2> output
spoiled '^error: few/a_train_1.bin: .* version 2,'
spoil; printf '\054\001' | dd of=few/a_train_0.bin bs=1 seek=1030 conv=notrunc 2> output
spoiled "^error: few/a_train_0.bin: the token at offset 3 is 300, but 'x' must be less than 300"
spoil; rm few/*train*
spoiled '^error: few/\*train\*.bin: no such file; --data DIR'
spoil; "$make" llmc16 few/a_train_0.bin 4 0; "$make" llmc16 few/a_train_1.bin 3 0
spoiled 'few/a_train_0.bin: too few tokens for an example of 4 and the one that follows'

# --- resident memory is what `info` says: the whole arena, the data that was used ---
if [ -z "${BLU_SANITIZED:-}" ]; then
  mkdir large && "$make" npy large 400000 4 3
  "$bin/fake_npy" train --data large --out large.run --epochs 1000 --quiet --save-every 10000 > output 2>&1 &
  pid=$!
  until ls -d large.run/step-*[0-9] > output 2>&1; do sleep 0.05; done
  resident=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status)
  kill -9 $pid
  wait $pid 2> output
  stated=$("$bin/fake_npy" info --data large | sed -n 's/^  in all *\([0-9]*\) .*/\1/p')
  off=$((resident - stated / 1024))
  [ $off -ge -5120 ] && [ $off -le 5120 ] || fail "resident: $resident kB, info says $((stated / 1024)) kB"
fi

# --- predict: npy, csv and IDX in, npy and csv out; rows in batches of 8 ---
cp -r idx.run run
expect 0 '^best:$' $fake predict npy/image.npy --out run
$fake predict image=npy/image.npy --out run --output from_npy.csv > output 2>&1 || fail "predict: $(cat output)"
same 'rows' "$(wc -l < from_npy.all.csv) $(wc -l < from_npy.best.csv)" '83 83'
cut -d , -f 1-16 csv/train.csv > images.csv
for input in images.csv idx/train-images-idx3-ubyte packed/image.npy.gz; do
  silent $fake predict $input --out run --output again.csv
  cmp again.all.csv from_npy.all.csv || fail "$input gave other results"
done
silent $fake predict images.csv --out run --output again.npy --threads 3
same 'size of best.npy and all.npy' "$(wc -c < again.best.npy) $(wc -c < again.all.npy)" "$((128 + 83 * 4)) $((128 + 83 * 12))"
expect 0 "'shape': (83, 3), }" head -c 128 again.all.npy
# what was predicted is what was measured: the accuracy over the 21 test images
silent $fake predict idx/t10k-images-idx3-ubyte --out run --output test.csv
right=$(awk '{ n += $1 == (NR - 1) % 3 } END { printf "%.6f", n / NR }' test.best.csv)
expect 0 "accuracy $right  (21 examples)" $fake eval --data idx --out run
expect 0 '^1.5$' $fake predict --entry constants --out run
expect 1 "no entry 'predct', did you mean 'predict'?" $fake predict --entry predct images.csv --out run
expect 1 "entry predict needs a file for its input 'image: f32\[8,4,4\]'" $fake predict --out run
expect 1 "'images.csv': entry predict takes 1 inputs, each once" $fake predict images.csv images.csv --out run
expect 1 "csv/train.csv: its f64\[83,17\] can't be given to 'image: f32\[8,4,4\]'" $fake predict csv/train.csv --out run
expect 1 'its name must end in .npy or .csv' $fake predict images.csv --out run --output x.txt
expect 1 'neither an npy nor an IDX file' $fake predict "$0" --out run
finish
