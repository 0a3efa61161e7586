# models.sh - the models that people start from train: three steps each on their data or a little text, from a loss that fits their number
# of classes, with gradients that are not 0, to a checkpoint that `eval` and the entry take. GPT-2 is looked at in full and trained small.
. "$(dirname "$0")/common.sh"

# The last three numbers of a field of the lines for training.
field() { sed -n '/"split":"train"/ s/.*"'"$1"'":\([^,}]*\)[,}].*/\1/p' "$2/metrics.jsonl"; }

trains() { # model, least and greatest first loss, metric, options of train..
  local model=$1 least=$2 most=$3 metric=$4
  shift 4
  run 0 "./$model" train --steps 3 --log-every 1 --eval-every 0 --quiet "$@"
  same "steps of $model" "$(field step "$model.run" | xargs)" '1 2 3'
  holds "first loss of $model" "$(field loss "$model.run" | head -n 1)" "x > $least && x < $most"
  for n in 2 3; do holds "loss $n of $model" "$(field loss "$model.run" | sed -n ${n}p)" "x > 0 && x < $most"; done
  for n in 1 2 3; do holds "gradient $n of $model" "$(field grad_norm "$model.run" | sed -n ${n}p)" 'x > 1e-3 && x < 1e3'; done
  holds "metric $metric of $model" "$(field "$metric" "$model.run" | tail -n 1)" 'x >= 0 && x < 10'
  trained="$trained $model "
}

# A probability for each class: `classes` numbers that add up to 1.
probabilities() { # model, classes, arguments of predict..
  local model=$1 classes=$2
  shift 2
  run 0 "./$model" predict "$@" --output "$model.csv"
  holds "probabilities of $model" "$(tail -n 1 "$model.csv" | tr ',' '\n' | awk '{ s += $1; n++ } END { print n == '"$classes"' ? s : "not so many" }')" \
    'x > 0.999 && x < 1.001'
}

trained=
mkdir text
for i in $(seq 1 400); do echo "line $i of a text that is dull: $((i * i)) is the square of $i."; done > text/train.txt
head -n 60 text/train.txt | tac > text/test.txt
printf 'hello' | od -An -v -t u1 | tr -s ' \n' ',' | sed 's/^,//; s/,$//' > five
for i in $(seq 1 12); do printf '%s,' "$(cat five)"; done > sixty
echo "$(cat sixty)10,32,65,66" > bytes.csv # 64 bytes
printf '65\n' > token.csv
printf '0\n' > at.csv

for model in fashion softmax lenet resnet vit autoencoder gpt_char llama lstm gru moe; do compile "$top/models/$model.blu" -o $model; done

for model in fashion softmax lenet resnet vit; do
  trains $model 2 3.5 accuracy
  head -n 1 /dev/zero | head -c 784 | od -An -v -t u1 -w784 | tr -s ' ' ',' | sed 's/^,//' > image.csv
  probabilities $model 10 image.csv
done
trains autoencoder 0.6 0.8 error
run 0 ./autoencoder predict --entry encode image.csv --output code.csv
run 0 ./autoencoder predict --entry decode code.csv --output back.npy
same 'bytes of an image made of a code' "$(wc -c < back.npy)" $((128 + 784 * 4))

for model in gpt_char llama lstm gru moe; do # ln 256 is 5.55
  trains $model 5.2 6.2 accuracy --data text
  run 0 ./$model eval --data text
  says 'loss [45]\.'
done
# PyTorch's first values: by the number of hidden units, 1 / sqrt(192), also where 64 numbers come in
run 0 ./lstm info
says '^  rnn\.x2h\.weight +f32\[768,64\] .* uniform\(-0\.0721688, 0\.0721688\);'
for model in lstm gru moe; do probabilities $model 256 bytes.csv; done
for model in lstm gru; do
  run 0 ./$model predict --entry decode token=token.csv --output $model.npy
  same "logits of $model" "$(wc -c < $model.npy)" $((128 + 256 * 4))
done
for model in gpt_char llama moe; do
  run 0 ./$model predict --entry decode token=token.csv at=at.csv --output $model.npy
  same "logits of $model" "$(wc -c < $model.npy)" $((128 + 256 * 4))
done
holds 'balance of the experts' "$(field uneven moe.run | tail -n 1)" 'x > 0.9 && x < 3'

# Small GPT-2: a shard in llm.c's form, of 900 tokens below 300.
compile -D V=300 -D S=16 -D L=2 -D H=4 -D D=32 -D B=4 "$top/models/gpt2.blu" -o gpt2
mkdir shards
for split in train val; do
  awk 'BEGIN { n = 900; printf "\\x%02x\\x%02x\\x%02x\\x%02x\\x01\\0\\0\\0\\x%02x\\x%02x\\0\\0", 136, 216, 52, 1, n % 256, int(n / 256)
    for (i = 12; i < 1024; i++) printf "\\0"
    for (i = 0; i < n; i++) { t = i * i % 300; printf "\\x%02x\\x%02x", t % 256, int(t / 256) } }' > escapes
  printf "$(cat escapes)" > shards/tiny_${split}_000.bin
done
trains gpt2 5.4 6 accuracy --data shards
run 0 ./gpt2 eval --data shards
run 0 ./gpt2 predict --entry decode token=token.csv at=at.csv --output gpt2.npy
same 'logits of gpt2' "$(wc -c < gpt2.npy)" $((128 + 300 * 4))
run 0 ./gpt2 export --output two.safetensors
# Adapters of its layers; with the frozen rest as it starts.
compile -D V=300 -D S=16 -D L=2 -D H=4 -D D=32 -D B=4 "$top/models/gpt2_lora.blu" -o gpt2_lora
run 0 ./gpt2_lora import two.safetensors --out gpt2_lora.run
trains gpt2_lora 5.4 6 loss --resume --data shards
# Tensors that the program lacks are left out by name alone; what it needs is taken whatever the pattern says.
compile -D V=300 -D S=16 -D L=1 -D H=4 -D D=32 -D B=4 "$top/models/gpt2.blu" -o one
run 1 ./one import two.safetensors --out one.run
complains '^  h\.1\.attn\.c_attn\.weight: f32\[32,96\] in the checkpoint, missing in the program$'
run 1 ./one import two.safetensors --out one.run --ignore 'h.1.attn.*'
complains '^  h\.1\.mlp\.c_fc\.weight: '
if grep -q 'h.1.attn' err; then fail 'what is left out is named'; fi
run 0 ./one import two.safetensors --out one.run --ignore 'h.?.*'
run 0 ./one export --out one.run --output one.safetensors
run 1 ./gpt2 import one.safetensors --out two.run --ignore '*'
complains '^  h\.1\.ln_1\.weight: f32\[32\] in the program, missing in the checkpoint$'
run 0 ./gpt2 import two.safetensors --out two.run --ignore '*'
run 0 ./gpt2 export --out two.run --output again.safetensors
cmp two.safetensors again.safetensors || fail 'a pattern changes what is imported'

compile "$top/models/gpt2.blu" -o whole
run 0 ./whole info
says '^parameters  148 tensors, 124439808 elements, 497759232 bytes$'
for tensor in 'wte.weight +f32\[50257,768\]' 'h.11.attn.c_attn.weight +f32\[768,2304\]' 'h.0.mlp.c_proj.bias +f32\[768\]' 'ln_f.bias +f32\[768\]'; do
  says "^  $tensor "
done

# No model is left out, and none is longer than a page.
for file in "$top"/models/*.blu; do
  name=$(basename "$file" .blu)
  case $trained in *" $name "*) ;; *) fail "models/$name.blu is not trained here" ;; esac
  holds "lines of $name.blu" "$(wc -l < "$file")" 'x < 80'
done
finish
