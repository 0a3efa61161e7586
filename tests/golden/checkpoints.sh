# checkpoints.sh BLUC CHECKOUT FOLDER GOLDEN [KEEP] - checkpoints as other programs write them (checkpoints.py): what is imported computes what
# PyTorch computed; what is exported has the names and bytes that were imported; what doesn't fit is refused, all of it at once. With KEEP the
# exported files stay there, for `checkpoints.py check KEEP`.
. "$(dirname "$0")/../e2e/common.sh"
golden=$4 keep=${5:-}
given=$top/tests/golden/checkpoints
numbers=$top/tests/golden/checkpoints.safetensors
sizes=(-D V=96 -D S=16 -D L=2 -D D=16 -D B=2)

# The model of the examples, with an entry that gives the logits of a whole sequence.
model() { # name, sizes..
  local name=$1
  shift
  sed '/^entry /d' "$top/models/$name.blu" > $name.blu
  echo "entry logits(tokens: i32[1, S]) -> float[1, S, V] { $logits }" >> $name.blu
  sed -n '/^entry /p' "$top/models/$name.blu" >> $name.blu
  compile "${sizes[@]}" "$@" $name.blu -o $name
}

computes() { # trainer, run, output, tolerance
  run 0 ./$1 predict --entry logits tokens=data/tokens.npy --out $2 --output logits.npy
  "$golden" array "$numbers" "output $3" logits.npy $4 > held || { fail "logits of $2"; head -n 5 held; }
}

mkdir data start
run 0 "$golden" unpack "$numbers" .
logits='model(tokens)'
model gpt2 -D H=2
model gpt2_lora -D H=2 -D RANK=4
logits='llama(tokens)'
llama=(-D H=2 -D G=1 -D HIDDEN=24)
model llama "${llama[@]}" -D TIED=true
mv llama llama_tied
model llama "${llama[@]}"

# --- in and out. f32 against double: 1e-5, as in golden.sh ---
run 0 ./gpt2 import "$given/gpt2" --out gpt2.run
same 'notes' "$(grep -c left out)" 0
computes gpt2 gpt2.run gpt2 1e-5
run 0 ./gpt2 import "$given/published/model.safetensors" --out published.run
says '^left out: 4 attention masks$'
says '^left out: 1 lm_head, equal to the embedding '
computes gpt2 published.run published 1e-5
run 0 ./gpt2 import "$given/llmc_f32.bin" --out llmc_f32.run
cmp gpt2.run/step-0/model.safetensors llmc_f32.run/step-0/model.safetensors || fail 'llm.c gives other parameters'
run 0 ./gpt2 import "$given/llmc_bf16.bin" --out llmc_bf16.run
cmp published.run/step-0/model.safetensors llmc_bf16.run/step-0/model.safetensors || fail 'llm.c gives other parameters in bf16'
for path in "$given/llama" "$given/llama/" "$given/llama/model.safetensors.index.json"; do
  rm -rf llama.run
  run 0 ./llama import "$path" --out llama.run
  computes llama llama.run llama 1e-5
done
# a tied head has no lm_head in the file; a program with a head of its own wants one, and a tied one takes none that differs
run 0 ./llama_tied import "$given/llama_tied" --out llama_tied.run
computes llama_tied llama_tied.run llama_tied 1e-5
run 0 ./llama_tied export --out llama_tied.run --output llama_tied.safetensors
run 1 ./llama import "$given/llama_tied" --out refused
complains '^  lm_head\.weight: f32\[96,16\] in the program, missing in the checkpoint$'
same 'differences' "$(grep -c '^  ' err)" 1
run 1 ./llama_tied import "$given/llama" --out refused
complains '^  lm_head\.weight: .*, missing in the program, and not equal to model\.embed_tokens\.weight$'
absent refused

for name in gpt2 published llmc_f32; do run 0 ./gpt2 export --out $name.run --output $name.safetensors; done
run 0 ./llama export --out llama.run --output llama.safetensors
head -c 60 gpt2.safetensors | grep -aF '{"__metadata__":{"format":"pt"},"' > /dev/null || fail 'a file that transformers refuses'
tensors() { cat "$@" | tr -d '\0' | grep -aoE '"[A-Za-z_0-9.]*":\{"dtype":"F32","shape":\[[0-9,]*\]' | sed 's/^"transformer\./"/' | LC_ALL=C sort; } # files..
same 'names and shapes' "$(tensors gpt2.safetensors)" "$(tensors "$given/gpt2/model.safetensors")"
same 'names and shapes' "$(tensors llama.safetensors)" "$(tensors "$given"/llama/*.safetensors)"
same 'names and shapes' "$(tensors llama_tied.safetensors)" "$(tensors "$given"/llama_tied/*.safetensors)"
run 0 ./gpt2 export --out llmc_f32.run --format llmc --output back.bin
cmp back.bin "$given/llmc_f32.bin" || fail 'not the bytes that came'
run 0 ./gpt2 export --out llmc_bf16.run --format llmc --dtype bf16 --output back.bin
cmp back.bin "$given/llmc_bf16.bin" || fail 'not the bytes that came in bf16'

# --- adapters: at first the base model itself; trained, they are the merged model, and the base is what it was ---
run 0 ./gpt2_lora import "$given/gpt2" --out lora.run
says '^not in the checkpoint: 24 tensors of adapters, which have their first values$'
computes gpt2_lora lora.run gpt2 1e-5
run 0 ./gpt2_lora info
says '^  h\.0\.mlp\.c_fc\.weight .*; frozen$'
says '^  h\.0\.mlp\.c_fc\.lora_A  .*; adamw of '
says '^trained     16 tensors, 2048 elements, 8192 bytes$'
says '^state       32 tensors, 4096 elements, 16384 bytes$'
if grep -q 'weight:m' out; then fail 'a frozen weight has a state'; fi
mkdir shards
for split in train val; do
  awk 'BEGIN { n = 200; printf "\\x%02x\\x%02x\\x%02x\\x%02x\\x01\\0\\0\\0\\x%02x\\0\\0\\0", 136, 216, 52, 1, n
    for (i = 12; i < 1024; i++) printf "\\0"
    for (i = 0; i < n; i++) printf "\\x%02x\\0", i * i % 96 }' > escapes
  printf "$(cat escapes)" > shards/${split}_000.bin
done
run 0 ./gpt2_lora train --resume --data shards --out lora.run --steps 20 --set lr=0.01 --set warmup=1 --quiet
run 0 ./gpt2_lora export --merge --out lora.run --output merged.safetensors
says '^merged 8 adapters into their weights$'
same 'names and shapes' "$(tensors merged.safetensors)" "$(tensors "$given/gpt2/model.safetensors")"
run 0 ./gpt2 import merged.safetensors --out merged.run
run 0 ./gpt2_lora predict --entry logits tokens=data/tokens.npy --out lora.run --output adapted.npy
run 0 ./gpt2 predict --entry logits tokens=data/tokens.npy --out merged.run --output merged.npy
run 0 "$golden" arrays merged.npy adapted.npy 1e-5
run 1 "$golden" arrays merged.npy logits.npy 1e-2 # training has changed something
run 0 ./gpt2_lora export --out lora.run --output apart.safetensors
run 0 ./gpt2 import apart.safetensors --out apart.run --ignore '*.lora_*'
cmp apart.run/step-0/model.safetensors gpt2.run/step-0/model.safetensors || fail 'the base has changed'
run 0 ./gpt2_lora import apart.safetensors --out again.run
cmp again.run/step-0/model.safetensors lora.run/step-20/model.safetensors || fail 'adapters are not what was exported'
run 0 ./gpt2_lora export --merge --out lora.run --format llmc --output merged.bin
run 0 ./gpt2 import merged.bin --out merged_bin.run
cmp merged.run/step-0/model.safetensors merged_bin.run/step-0/model.safetensors || fail 'merged for llm.c'
run 1 ./gpt2 export --merge --out gpt2.run --output no.safetensors
one_line '^error: --merge: this program has no adapters'

# The two other kinds of layers: Llama's projections, and a linear layer with the values of one of GPT-2's.
sed 's/context = S)/context = S, layer = nn.LoRAProjection)/; s/(D, HIDDEN)/(D, HIDDEN, layer = nn.LoRAProjection)/
  s/optimizer = /optimizer = frozen; optimizer "*.lora_?" = /' llama.blu > llama_lora.blu
compile "${sizes[@]}" "${llama[@]}" llama_lora.blu -o llama_lora
run 0 ./llama_lora import "$given/llama" --out llama_lora.run
computes llama_lora llama_lora.run llama 1e-5
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%c", 33 + i * i % 60 }' > train.txt # characters below 96
run 0 ./llama_lora train --resume --out llama_lora.run --steps 20 --set lr=0.01 --set warmup=1 --quiet
run 0 ./llama_lora export --merge --out llama_lora.run --output merged_llama.safetensors
says '^merged 14 adapters into their weights$'
run 0 ./llama import merged_llama.safetensors --out merged_llama.run
run 0 ./llama_lora predict --entry logits tokens=data/tokens.npy --out llama_lora.run --output adapted.npy
run 0 ./llama predict --entry logits tokens=data/tokens.npy --out merged_llama.run --output merged.npy
run 0 "$golden" arrays merged.npy adapted.npy 1e-5

# --- PEFT's adapters: read, they compute what PEFT computed, whatever scale the program began with; written, they are what was read ---
peft() { # trainer, base, name, tensors
  run 0 ./$1 import "$given/$2" --adapter "$given/$3" --out $3.run
  computes $1 $3.run $3 1e-5
  run 0 ./$1 export --format peft --out $3.run --output $3
  says "^wrote the adapters of $3\.run/step-0 to $3$"
  run 0 ./$1 import "$given/$2" --adapter $3 --out $3.again.run
  cmp $3.run/step-0/model.safetensors $3.again.run/step-0/model.safetensors || fail "$3 is not what was exported"
  run 0 ./$1 export --merge --out $3.run --output $3.safetensors
  run 0 ./$2 import $3.safetensors --out $3.merged.run
  computes $2 $3.merged.run $3 1e-5
  same "tensors of $3" "$(tensors $3/adapter_model.safetensors | wc -l)" "$4"
  absent $3/*.tmp
}
peft gpt2_lora gpt2 peft_gpt2 16
same 'names and shapes' "$(tensors peft_gpt2/adapter_model.safetensors)" "$(tensors "$given/peft_gpt2/adapter_model.safetensors")"
for setting in '"r": 4' '"lora_alpha": 10' '"fan_in_fan_out": true' '"use_rslora": false' '"peft_type": "LORA"'; do
  grep -q "^  $setting,$" peft_gpt2/adapter_config.json || fail "the configuration lacks $setting"
done
same 'modules' "$(sed -n '/target_modules/,$p' peft_gpt2/adapter_config.json | grep -c '"transformer\.h\.')" 8
run 0 ./gpt2_lora export --format peft --dtype bf16 --out peft_gpt2.run --output rounded
tr -d '\0' < rounded/adapter_model.safetensors | grep -a '"BF16"' > /dev/null || fail '--dtype of adapters'
# Layers that the file leaves alone: their product is 0. The scale is 12 / sqrt(3).
sed 's/context = S)/context = S, layer = adapted)/; s/(D, HIDDEN)/(D, HIDDEN, layer = adapted)/
  s/optimizer = /optimizer = frozen; optimizer "*.lora_?" = /' llama.blu > llama_peft.blu
echo 'fn adapted(I, O) { nn.LoRAProjection(I, O, rank = 3) }' >> llama_peft.blu
compile "${sizes[@]}" "${llama[@]}" -D TIED=true llama_peft.blu -o llama_peft
peft llama_peft llama_tied peft_llama 28
run 0 ./llama_peft import "$given/llama_tied" --adapter "$given/peft_llama" --out spared.run
says '^not in the checkpoint: 20 tensors of adapters, which have their first values$'
same 'names' "$(tensors peft_llama/adapter_model.safetensors | grep -cF -f <(tensors "$given/peft_llama/adapter_model.safetensors"))" 8
grep -q '^    "model.layers.0.self_attn.q_proj",$' peft_llama/adapter_config.json || fail 'the name of a module'

cp -r "$given/peft_gpt2" changed
adapter() { # pattern of the error, trainer, command of sed for the configuration
  sed "$3" "$given/peft_gpt2/adapter_config.json" > changed/adapter_config.json
  run 1 ./$2 import "$given/gpt2" --adapter changed --out refused
  complains "$1"
  absent refused
}
for change in 's/"use_dora": false/"use_dora": true/' 's/"bias": "none"/"bias": "all"/' 's/"init_lora_weights": true/"init_lora_weights": "pissa"/' \
  's/"rank_pattern": {}/"rank_pattern": {"c_fc": 2}/' 's/"modules_to_save": null/"modules_to_save": ["wte"]/' 's/"r": 4/"r": 0/' 's/"r": 4/"r": "4"/' \
  's/"lora_alpha": 10/"lora_alpha": true/' 's/"use_rslora": false/"use_rslora": 0/' 's/"peft_type": "LORA"/"peft_type": "IA3"/' \
  's/"revision": null/"of_2030": 1/'; do
  key=$(sed 's/.*\/"\([a-z_0-9]*\)".*/\1/' <<< "$change")
  adapter "^error: changed/adapter_config.json: this value of '$key' is not understood$" gpt2_lora "$change"
done
adapter '^error: changed/adapter_config.json: not a configuration of a LoRA adapter: it lacks r$' gpt2_lora '/"r":/d'
adapter '^error: changed/adapter_config.json: .* it lacks lora_alpha$' gpt2_lora '/"lora_alpha":/d'
adapter '^error: changed/adapter_config.json: .* it lacks peft_type$' gpt2_lora '/"peft_type":/d'
adapter '^error: changed/adapter_config.json:.*: not valid JSON: ' gpt2_lora '$d'
adapter '^error: changed/adapter_config.json: not a configuration of an adapter: not an object$' gpt2_lora '1s/.*/[]/; 2,$d'
adapter '^error: --adapter: this program has no adapters' gpt2 ''
sed 's/, layer = adapted);/);/' gpt2_lora.blu > fewer.blu # what is adapted there: the attention of none, the perceptron
sed -i 's/act = gelu_tanh)/act = gelu_tanh, layer = adapted)/' fewer.blu
compile "${sizes[@]}" -D H=2 -D RANK=4 fewer.blu -o fewer
adapter ' does not fit this program: 0 tensors are missing, 0 of another shape or type, 8 unexpected$' fewer ''
complains '^  transformer\.h\.0\.attn\.c_attn\.lora_A: f32\[4,16\] in the checkpoint, missing in the program$'
compile "${sizes[@]}" -D H=2 -D RANK=2 gpt2_lora.blu -o gpt2_lora2
adapter ' 0 tensors are missing, 16 of another shape or type, 0 unexpected$' gpt2_lora2 ''
complains '^  h\.0\.attn\.c_attn\.lora_A: f32\[16,2\] in the program, f32\[16,4\] in the checkpoint$'
sed 's/h\.0\.mlp\.c_fc\.lora_B/h.0.mlp.c_fc.lora_C/' "$given/peft_gpt2/adapter_model.safetensors" > changed/adapter_model.safetensors
adapter ' 1 tensors are missing, 0 of another shape or type, 1 unexpected$' gpt2_lora ''
complains '^  h\.0\.mlp\.c_fc\.lora_B: .* missing in the checkpoint$'
complains '^  base_model\.model\.transformer\.h\.0\.mlp\.c_fc\.lora_C\.weight: '
rm changed/adapter_model.safetensors
adapter '^error: cannot open changed/adapter_model.safetensors' gpt2_lora ''
rm changed/adapter_config.json
run 1 ./gpt2_lora import "$given/gpt2" --adapter changed --out refused
complains 'changed/adapter_config.json'
run 1 ./gpt2 export --format peft --out gpt2.run --output no
one_line '^error: --format peft: this program has no adapters'
run 1 ./gpt2_lora export --format peft --merge --out lora.run --output no
one_line '^error: --format peft is for adapters, and --merge leaves none$'
sed 's/rank = 3/rank = if O == 16 { 3 } else { 2 }/' llama_peft.blu > mixed.blu
compile "${sizes[@]}" "${llama[@]}" -D TIED=true mixed.blu -o mixed
run 0 ./mixed import "$given/llama_tied" --out mixed.run
run 1 ./mixed export --format peft --out mixed.run --output no
one_line '^error: --format peft: a file has one rank and one scale, but those of model.layers.0.self_attn.k_proj are 2 and 8, those of .*q_proj 3 and 5.33333$'
run 1 ./gpt2_lora export --format peft --out lora.run --output llama.blu/x
one_line '^error: '
absent no

cat > layer.blu << 'END'
import nn;
import optim;
const RANK = 2;
module Attention() {
  let c_proj = if RANK > 0 { nn.LoRALinear(16, 16, rank = RANK) } else { nn.Linear(16, 16) };
  fn (x: float[b, 16]) -> float[b, 16] { c_proj(x) }
}
module Block() {
  let attn = Attention();
  fn (x: float[b, 16]) -> float[b, 16] { attn(x) }
}
module Net() {
  let h = [Block() for i in 0..1];
  fn (x: float[b, 16]) -> float[b, 16] { h[0](x) }
}
let net = Net();
train (x: f32[4, 16], y: i32[4]) from csv {
  loss = cross_entropy(net(x), y);
  optimizer = optim.sgd(0.5);
  epochs = 1;
}
entry scores(x: f32[1, 16]) -> float[1, 16] { net(x) }
END
awk 'BEGIN { for (i = 0; i < 40; i++) { for (j = 0; j < 16; j++) printf "%.2f,", (i * 7 + j * 11) % 13 / 13 - 0.5; print i % 16 } }' > train.csv
head -n 1 train.csv | cut -d , -f 1-16 > x.csv
for rank in 0 2 16; do
  compile -D RANK=$rank layer.blu -o layer$rank
  run 0 ./layer$rank import "$given/gpt2" --ignore '*' --out layer$rank.run
done
run 0 ./layer2 train --resume --out layer2.run --quiet
run 0 ./layer2 export --merge --out layer2.run --output layer.safetensors
run 0 ./layer0 import layer.safetensors --out layer.run
run 0 ./layer2 predict x.csv --out layer2.run --output adapted.npy
run 0 ./layer0 predict x.csv --out layer.run --output merged.npy
run 0 "$golden" arrays merged.npy adapted.npy 1e-5
run 0 ./layer0 predict x.csv --out layer0.run --output base.npy
run 1 "$golden" arrays merged.npy base.npy 1e-2
run 1 ./layer16 export --merge --out layer16.run --output no.safetensors
one_line '^error: h.0.attn.c_proj: a rank as large as the weight leaves open how its adapter lies$'
sed 's/= if RANK > 0 .*/= Half();/; s/^import nn;/module Half() {\n  param lora_A: f32[16] = ones;\n  fn (x: float[b, 16]) -> float[b, 16] { x * lora_A }\n}/
  s/, RANK = 2//; /^const RANK/d' layer.blu > half.blu
compile half.blu -o half
run 0 ./half import "$given/gpt2" --ignore '*' --out half.run
run 1 ./half export --merge --out half.run --output no.safetensors
one_line "^error: h.0.attn.c_proj: lora_A, lora_B, lora_scale and weight don't make an adapter$"
absent no.safetensors no.safetensors.tmp

# --- what doesn't fit: every difference, and nothing is made ---
refuses() { # pattern, trainer, arguments..
  local pattern=$1 trainer=$2
  shift 2
  run 1 ./$trainer import "$@" --out refused
  complains "$pattern"
  absent refused
}
compile "${sizes[@]}" -D H=2 -D S=8 -D L=3 "$top/models/gpt2.blu" -o deeper
refuses '^error: .*/gpt2 does not fit this program: 12 tensors are missing, 1 of another shape or type, 0 unexpected$' deeper "$given/gpt2"
complains '^  h\.2\.mlp\.c_proj\.bias: f32\[16\] in the program, missing in the checkpoint$'
complains '^  wpe\.weight: f32\[8,16\] in the program, f32\[16,16\] in the checkpoint$'
same 'lines' "$(grep -c '^  ' err)" 13
refuses '12 tensors are missing, 1 of another shape or type, 0 unexpected$' deeper "$given/llmc_f32.bin"
refuses ' [0-9]* tensors are missing, 0 of another shape or type, [0-9]* unexpected$' gpt2 "$given/llama"
complains '^  lm_head\.weight: f32\[96,16\] in the checkpoint, missing in the program, and not equal to model\.embed_tokens\.weight$'
compile "${sizes[@]}" -D H=4 "$top/models/gpt2.blu" -o heads
refuses 'its attention has 2 heads, the program.s 4$' heads "$given/llmc_f32.bin"
refuses 'holds neither model.safetensors nor model.safetensors.index.json$' gpt2 "$given"
refuses '^error: cannot open nowhere' gpt2 nowhere.safetensors

mkdir parts
cp "$given"/llama/*.safetensors parts
index() { printf '%s' "$1" > parts/model.safetensors.index.json; }
whole=$(cat "$given/llama/model.safetensors.index.json")
index "${whole/model-00001-of-00003/..\/model-00001-of-00003}"
refuses "'../model-00001-of-00003.safetensors' is not the name of a file beside it" llama parts
index "${whole/model-00001-of/model-00002-of}"
refuses "tensor '.*' is not in parts/model-00002-of-00003.safetensors$" llama parts
index "$(printf '%s' "$whole" | sed '/lm_head/d')"
refuses "holds the tensor 'lm_head.weight', which is not placed there$" llama parts
index "$(printf '%s' "$whole" | sed 's/"lm_head.weight"/"model.norm.weight"/')"
refuses "tensor 'model.norm.weight': its name is given twice$" llama parts
for wrong in '' '{' '{}' '[]' '{"metadata":{}}' '{"metadata":{"a":01x},"weight_map":{}}' '{"weight_map":{},}' '{"weight_map":{}} x' \
  '{"weight_map":{"a":1}}' '{"weight_map":{},"weight_map":{}}' "{\"metadata\":$(printf '[%.0s' $(seq 99))"; do
  index "$wrong"
  refuses '^error: parts/model.safetensors.index.json: ' llama parts
done
index '{"metadata":{"total_size":1.5e9,"x":[null,true,{"a":"b"}]},"weight_map":{}}'
refuses '^error: parts does not fit this program: 21 tensors are missing, 0 ' llama parts
index "$whole"
rm parts/model-00003-of-00003.safetensors
refuses '^error: cannot open parts/model-00003-of-00003.safetensors' llama parts

# --- llm.c's files: a word of the header at a time, and the length ---
word() { # number of the word, its value (below 256)
  { head -c $(($1 * 4)) "$given/llmc_f32.bin"; printf "\\x$(printf %02x "$2")\\0\\0\\0"; tail -c +$(($1 * 4 + 5)) "$given/llmc_f32.bin"; } > bad.bin
}
word 0 1 && refuses '^error: bad.bin: not a checkpoint of llm.c: its magic number is 1, not 20240326' gpt2 bad.bin
word 1 4 && refuses 'of version 4; known are 3 \(f32\) and 5 \(bf16\)$' gpt2 bad.bin
word 2 0 && refuses 'its context is 0$' gpt2 bad.bin
word 4 3 && refuses 'a model of 3 layers of width 16, context 16 and padded vocabulary 128 in f32 takes [0-9]* bytes, and the file has 36608$' gpt2 bad.bin
word 5 3 && refuses 'a width of 16 is not divided by 3 heads$' gpt2 bad.bin
word 7 95 && refuses 'its vocabulary of 96 is padded to 95$' gpt2 bad.bin
head -c 1000 "$given/llmc_f32.bin" > bad.bin
refuses 'shorter than its header of 1024 bytes$' gpt2 bad.bin
head -c 36607 "$given/llmc_f32.bin" > bad.bin
refuses 'takes 36608 bytes, and the file has 36607$' gpt2 bad.bin

# --- options of export ---
wrong() { # pattern, trainer, arguments..
  local pattern=$1 trainer=$2
  shift 2
  run 1 ./$trainer export "$@"
  one_line "$pattern"
}
wrong '^error: --format pickle: it is safetensors, npy, llmc or peft$' gpt2 --out gpt2.run --format pickle
wrong '^error: --output a.bin: its name must end in .safetensors or .npy$' gpt2 --out gpt2.run --output a.bin
wrong '^error: --output a.npy: for --format llmc its name must end in .bin$' gpt2 --out gpt2.run --format llmc --output a.npy
wrong '^error: --dtype f16: llm.c.s files hold f32 or bf16$' gpt2 --out gpt2.run --format llmc --dtype f16
wrong '^error: --format llmc has no place for adapters: --merge adds them to the weights$' gpt2_lora --out lora.run --format llmc
wrong '^error: --heads is for --format llmc$' gpt2 --out gpt2.run --heads 2
wrong '^error: --heads 4: this program has 2$' gpt2 --out gpt2.run --format llmc --heads 4
wrong '^error: --format llmc is for GPT-2 and its names' llama --out llama.run --format llmc
sed '/^entry decode/d' gpt2.blu > blind.blu
run 0 "$bluc" "${sizes[@]}" -D H=2 blind.blu -o blind # with warnings: nothing calls decode
run 0 ./blind import "$given/gpt2" --out blind.run
wrong '^error: --format llmc: the file says how many heads attention has, .*give --heads N$' blind --out blind.run --format llmc
wrong '^error: --heads 3 don.t divide a width of 16$' blind --out blind.run --format llmc --heads 3
run 0 ./blind export --out blind.run --format llmc --heads 2
cmp blind.bin "$given/llmc_f32.bin" || fail '--heads'
if [ -n "$keep" ]; then mkdir -p "$keep" && cp {gpt2,llama,llama_tied,published,llmc_f32}.safetensors "$keep" && cp -r peft_gpt2 peft_llama "$keep"; fi
finish
