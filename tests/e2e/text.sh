# text.sh - from a text to shards of tokens, to a trained GPT-2, to text again; and the same without a tokenizer, on bytes. The entry `decode`
# gives the logits of the whole forward pass, and a sample is the same for the same seed, for any number of threads.
. "$(dirname "$0")/common.sh"
tokenizers=$top/tests/runtime/tokenizer
text=$tokenizers/text.txt

# Numbers of an .npy file of f32, one a line. Its header is as long as it says, in two bytes.
numbers() { # file
  local header
  header=$(od -An -v -t u2 -j 8 -N 2 "$1" | tr -d ' ')
  od -An -v -t f4 -w4 -j $((10 + header)) "$1" | tr -d ' '
}
# Two files have as many numbers, and all differ by at most this; NaN differs from everything.
close_to() { # what, file, file, most
  paste "$2" "$3" | awk -v most="$4" '
    { d = $1 - $2; n++; if (d < 0) d = -d; if (NF != 2 || $1 ~ /nan|inf/ || $2 ~ /nan|inf/ || !(d <= most)) bad++; if (d > worst) worst = d }
    END { printf "%d numbers, %d bad, worst difference %g\n", n, bad, worst; exit !(n > 0 && !bad) }' > compared || fail "$1: $(cat compared)"
}
word_at() { od -An -v -t u4 -j $((4 * $2)) -N 4 "$1" | tr -d ' '; } # file, index
ids_of() { od -An -v -t "u$2" -w"$2" -j 1024 "$1" | tr -d ' '; }     # shard, bytes of an id
# The ids that the `tokenizers` library gives the whole of text.txt: the first of its cases.
wanted() { head -n 1 "$tokenizers/$1.ids" | cut -f 2 | tr ' ' '\n'; }

# --- tokenize: shards have llm.c's form and the library's ids ---
run 0 "$bluc" tokenize --help
says '^example:'
for name in gpt2 llama3 qwen2 llama2; do
  run 0 "$bluc" tokenize --tokenizer "$tokenizers/$name.json" --output shards/${name}_ "$text"
  says "^shards/${name}_train_\*\.bin: [0-9]+ tokens of 16 bits in 1 file$"
  says '^vocabulary: [45][0-9]+ ids$'
  shard=shards/${name}_train_000001.bin
  wanted $name > wanted
  same "magic of $name" "$(word_at $shard 0) $(word_at $shard 1)" '20240520 1'
  same "tokens of $name" "$(word_at $shard 2)" $(($(wc -l < wanted) + 1))
  same "bytes of $name" "$(wc -c < $shard)" $((1024 + 2 * $(wc -l < wanted) + 2))
  ids_of $shard 2 | tail -n +2 | cmp - wanted || fail "ids of $name"
done
same 'a separator stands first' "$(ids_of shards/llama3_train_000001.bin 2 | head -n 1)" 0 # <|begin_of_text|>
run 0 "$bluc" tokenize --tokenizer "$tokenizers/vocab.bpe" --output=shards/pair_ --separator=none --quiet "$text"
[ ! -s out ] || fail '--quiet says something'
ids_of shards/pair_train_000001.bin 2 | cmp - <(wanted gpt2) || fail 'ids of vocab.bpe and encoder.json'
gzip -c "$text" > text.gz
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/gz_ text.gz
cmp shards/gz_train_000001.bin shards/gpt2_train_000001.bin || fail 'a gzipped text'
"$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/pipe_ - < "$text" > out 2> err || fail "standard input: $(cat err)"
cmp shards/pipe_train_000001.bin shards/gpt2_train_000001.bin || fail 'standard input'

# more than 65536 ids: 32 bits
sed 's/"<|endoftext|>":0,/"<|endoftext|>":0,"QQ":70000,/' "$tokenizers/gpt2.json" > wide.json
run 0 "$bluc" tokenize --tokenizer wide.json --output shards/wide_ "$text"
says 'tokens of 32 bits'
same 'magic of 32 bits' "$(word_at shards/wide_train_000001.bin 0) $(word_at shards/wide_train_000001.bin 1)" '20240801 7'
ids_of shards/wide_train_000001.bin 4 | cmp - <(ids_of shards/gpt2_train_000001.bin 2) || fail 'ids of 32 bits'

# small shards are the large one in pieces; a single text is cut at a line for validation; lines are documents, spread evenly
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/small_ --shard-tokens 1000 "$text"
for shard in shards/small_train_*.bin; do ids_of $shard 2; done | cmp - <(ids_of shards/gpt2_train_000001.bin 2) || fail 'ids of small shards'
same 'tokens of the first' "$(word_at shards/small_train_000001.bin 2)" 1000
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/cut_ --validation 0.2 "$text"
says '_val_\*\.bin: [0-9]+ tokens of 16 bits in 1 file$'
tail=$(for n in $(seq 1 20); do tail -n $n "$text" | wc -c; done | awk -v all="$(wc -c < "$text")" '$1 <= 0.2 * all { n = NR } END { print n }')
tail -n "$tail" "$text" > tail.txt
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/tail_ --separator none tail.txt
cmp <(ids_of shards/cut_val_000000.bin 2) <(ids_of shards/tail_train_000001.bin 2) || fail 'the last fifth, from a line on'
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/lines_ --documents line --validation 0.25 "$text"
lines=$(grep -c . "$text")
count() { ids_of "$1" 2 | grep -cx 0; }
same 'documents' "$(count shards/lines_train_000001.bin) $(count shards/lines_val_000000.bin)" "$((lines - lines / 4)) $((lines / 4))"
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/two_ --validation-file tail.txt "$text"
cmp <(ids_of shards/two_val_000000.bin 2 | tail -n +2) <(ids_of shards/tail_train_000001.bin 2) || fail 'a file for validation'
printf 'a<|endoftext|>b' > special.txt
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/special_ --separator none special.txt
same 'special tokens' "$(ids_of shards/special_train_000001.bin 2 | xargs)" '65 0 66'
run 0 "$bluc" tokenize --tokenizer "$tokenizers/gpt2.json" --output shards/ordinary_ --separator none --ordinary special.txt
if ids_of shards/ordinary_train_000001.bin 2 | grep -x 0 > /dev/null; then fail 'a special token in ordinary text'; fi

# --- tokenize: what goes wrong leaves nothing, and what was there stays ---
before=$(cksum shards/* | cksum)
refuses() { # status, pattern, arguments..
  local status=$1 pattern=$2
  shift 2
  run "$status" "$bluc" tokenize "$@"
  one_line "$pattern"
}
g="--tokenizer $tokenizers/gpt2.json"
refuses 1 "^bluc tokenize: shards/gpt2_train_000001.bin is there already; --overwrite" $g --output shards/gpt2_ "$text"
refuses 1 '^bluc tokenize: nowhere.txt: No such file' $g --output shards/x_ "$text" nowhere.txt
refuses 1 '^bluc tokenize: nowhere.json: No such file' --tokenizer nowhere.json --output shards/x_ "$text"
refuses 1 "^bluc tokenize: $text:1:1: not valid JSON: " --tokenizer "$text" --output shards/x_ "$text"
refuses 1 "no token is '<none>'" $g --output shards/x_ --separator '<none>' "$text"
: > empty.txt
refuses 1 '^bluc tokenize: there is no text to train on$' $g --output shards/x_ empty.txt
refuses 1 'special.txt is not a folder' $g --output special.txt/x_ "$text"
refuses 2 'which texts' $g --output shards/x_
refuses 2 'which --output' $g "$text"
refuses 2 'which --tokenizer' --output shards/x_ "$text"
refuses 2 "unknown option '--speed'" $g --output shards/x_ --speed "$text"
refuses 2 '--validation takes a share' $g --output shards/x_ --validation 1.5 "$text"
refuses 2 '--validation takes a share' $g --output shards/x_ --validation nan "$text"
refuses 2 '--shard-tokens takes' $g --output shards/x_ --shard-tokens 0 "$text"
refuses 2 '--documents takes file or line' $g --output shards/x_ --documents page "$text"
(ulimit -f 2 && run 1 "$bluc" tokenize $g --output shards/x_ "$text" && complains 'File too large' && exit $failures) || failures=$((failures + 1))
same 'what was there' "$(cksum shards/* | cksum)" "$before"
run 0 "$bluc" tokenize $g --output shards/small_ --overwrite tail.txt
absent shards/small_train_000002.bin

# --- a small GPT-2 learns the shards, and goes on with a text ---
mkdir data
for i in $(seq 1 30); do cat "$text"; done > long.txt
run 0 "$bluc" tokenize $g --output data/text_ --validation 0.1 --quiet long.txt
small='-D V=448 -D S=32 -D L=2 -D H=4 -D D=64 -D B=16'
sed 's/^entry decode/entry all(x: i32[1, S]) -> float[1, S, V] { model(x) }\nentry decode/' "$top/models/gpt2.blu" > gpt2.blu
compile $small gpt2.blu -o gpt2
run 0 ./gpt2 train --data data --steps 200 --set lr=4e-3 --set warmup=10 --eval-every 0 --quiet --threads 1
prompt='The quick'
sample="--tokenizer $tokenizers/gpt2.json --quiet" # one thread where many would wait for each other on a busy machine
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 12 --temperature 0
cp out greedy
holds 'bytes of a greedy sample' "$(wc -c < greedy)" 'x > 20'
grep -q "^$prompt" greedy || fail "the sample doesn't begin with its prompt: $(cat greedy)"
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 12 --top-k 1 --seed 9
cmp out greedy || fail 'top_k 1 is not greedy'
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 12 --min-p 1
cmp out greedy || fail 'min_p 1 is not greedy'
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 12 --top-p 0
cmp out greedy || fail 'top_p 0 is not greedy'
for threads in 1 2; do
  run 0 ./gpt2 sample $sample --prompt "$prompt" --tokens 20 --temperature 3 --seed 4 --threads $threads
  cp out sample$threads
done
cmp sample1 sample2 || fail 'samples differ between numbers of threads'
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 20 --temperature 3 --seed 5
if cmp -s out sample1; then fail 'another seed gives the same sample'; fi
iconv -f UTF-8 -t UTF-8 out > read || fail 'a sample is no UTF-8'
stop=$(cut -c 14-16 greedy) # behind the prompt
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 12 --temperature 0 --stop "$stop" --stop 'never said'
same 'before the stop text' "$(cat out)" "$(awk -v stop="$stop" -v from=${#prompt} '{ print substr($0, 1, from + index(substr($0, from + 1), stop) - 1) }' greedy)"
run 0 ./gpt2 sample --threads 1 $sample --prompt "$prompt" --tokens 0
same 'no token' "$(cat out)" "$prompt"
run 0 ./gpt2 sample --threads 1 $sample --tokens 3 # begins with <|endoftext|>
run 0 ./gpt2 sample --threads 1 --tokenizer "$tokenizers/gpt2.json" --prompt "$prompt" --tokens 1000 --temperature 3
complains '^stopped after [0-9]+ tokens: the context is full \(32 positions\)$'
run 0 ./gpt2 sample --threads 1 --tokenizer "$tokenizers" --prompt "$prompt" --tokens 12 --temperature 0 --quiet # a folder, with vocab.bpe
cmp out greedy || fail 'vocab.bpe and encoder.json'

# --- decode gives the logits of the whole forward pass. Both compute in f32, with sums in other orders at places: 1e-4 is far above their
# rounding for logits of a few units, and far below what a wrong position or mask makes. ---
whole() { # trainer, ids by commas
  echo "$2" > x.csv
  run 0 ./$1 predict --entry all x.csv --output $1.all.npy
}
head -c 60 "$text" > prompt.txt
run 0 "$bluc" tokenize $g --output shards/prompt_ --separator none prompt.txt
ids_of shards/prompt_train_000001.bin 2 > ids
tokens=$(wc -l < ids)
holds 'tokens of the prompt' "$tokens" 'x > 16 && x <= 32'
whole gpt2 "$( (cat ids; yes 0) | head -n 32 | paste -sd ,)" # what follows a position changes nothing there
numbers gpt2.all.npy | head -n $((tokens * 448)) > all
run 0 ./gpt2 sample --threads 1 $sample --prompt "$(cat prompt.txt)" --tokens 0 --logits gpt2.npy
same 'numbers of logits' "$(numbers gpt2.npy | wc -l)" $((tokens * 448))
close_to 'logits of gpt2' <(numbers gpt2.npy) all 1e-4
numbers gpt2.npy | tail -n +449 > later # the comparison can fail
if paste all later | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-4)) exit 1 }'; then fail 'shifted logits are no different'; fi

# --- characters: no tokenizer ---
mkdir bytes
cp long.txt bytes/train.txt
cp "$text" bytes/test.txt
# The number of the greatest of each 256 logits, the lowest of equals: what --temperature 0 draws.
greatest() { awk '{ i = (NR - 1) % 256; if (!i || $1 + 0 > best) { best = $1 + 0; at = i } if (i == 255) print at }'; }
whole_pass() { # model: the file with one more entry, the logits of all positions of a text of 48 bytes
  case $1 in
    llama) sed 's/^entry decode/entry all(x: i32[1, S]) -> float[1, S, V] { llama(x) }\n&/' ;;
    moe) sed 's/^entry decode/entry all(x: i32[1, S]) -> float[1, S, V] { let (y, _) = model(x); y }\n&/' ;;
    gpt_char) sed 's/^entry decode/entry all(x: i32[1, S]) -> float[1, S, V] { model(x) }\n&/' ;;
    *) sed 's/^entry decode/entry all(x: i32[1, T]) -> float[1, T, V] { model(x) }\n&/' ;;
  esac < "$top/models/$1.blu" > "$1.blu"
}
for model in gpt_char llama moe lstm gru; do
  more='--set warmup=10'
  case $model in
    llama) shape='-D S=48 -D L=2 -D H=4 -D D=64 -D B=16 -D HIDDEN=128 -D G=2' ;;
    moe) shape='-D S=48 -D L=2 -D H=4 -D D=64 -D B=16 -D HIDDEN=64 -D E=4' ;;
    gpt_char) shape='-D S=48 -D L=2 -D H=4 -D D=64 -D B=16' ;;
    *) shape='-D T=48 -D D=32 -D N=64 -D B=16' more= ;;
  esac
  whole_pass $model
  compile $shape $model.blu -o $model
  run 0 ./$model train --data bytes --steps 60 --set lr=3e-3 $more --eval-every 0 --quiet --threads 1
  # greedy: each byte is the greatest of the logits before it, and of those that the whole pass over prompt and bytes gives there
  run 0 ./$model sample --threads 1 --prompt 'The ' --tokens 44 --quiet --logits $model.npy --temperature 0
  head -c -1 out > said
  same "bytes that $model says" "$(wc -c < said)" 48
  whole $model "$(od -An -v -t u1 said | xargs | tr ' ' ',')"
  numbers $model.all.npy | greatest | head -n 47 | tail -n 44 > expected # behind byte 4, 5, ..
  od -An -v -t u1 -w1 -j 4 said | tr -d ' ' | cmp - expected || fail "what $model says is not what its logits say"
  close_to "logits of $model" <(numbers $model.npy) <(numbers $model.all.npy | head -n $((47 * 256))) 1e-4
  whole $model "$(head -c 48 "$text" | od -An -v -t u1 | xargs | tr ' ' ',')"
  run 0 ./$model sample --threads 1 --prompt "$(head -c 48 "$text")" --tokens 0 --quiet --logits $model.npy
  close_to "logits of $model" <(numbers $model.npy) <(numbers $model.all.npy) 1e-4
  run 0 ./$model sample --threads 1 --prompt 'The ' --tokens 40 --temperature 100 --seed 3 --quiet # nearly random bytes
  iconv -f UTF-8 -t UTF-8 out > read || fail "a sample of $model is no UTF-8"
  run 0 ./$model sample --threads 1 --tokens 5 --quiet
  case $model in
    lstm | gru) # what they remember has no end
      run 0 ./$model sample --threads 1 --prompt "$(head -c 60 "$text")" --tokens 100 --quiet --logits $model.npy
      same "positions of $model" "$(numbers $model.npy | wc -l)" $(((60 + 99) * 256))
      ;;
    *)
      run 1 ./$model sample --threads 1 --prompt "$(head -c 49 "$text")" --quiet
      one_line '^error: the prompt has 49 tokens, but the context of this program is 48$'
      ;;
  esac
done
same 'the greatest' "$(printf '%s\n' -1 2 2 $(seq 253 | sed 's/.*/0/') | greatest)" 1

# --- the script that does all of it ---
for option in '' "--tokenizer $tokenizers/vocab.bpe"; do
  run 0 "$top/models/text.sh" --bluc "$bluc" --out demo --steps 10 $option long.txt
  says "^'demo/gpt' 'sample' '--out' 'demo/run' .*'--prompt' 'A small text in many lan' "
  says '^A small text in many lan.'
  rm -rf demo/run
done
run 1 "$top/models/text.sh" --bluc nowhere long.txt
one_line '^error: nowhere is not there'
run 1 "$top/models/text.sh" --bluc "$bluc" --out demo empty.txt
one_line '^error: empty.txt has only 0 lines$'
run 2 "$top/models/text.sh" --speed

# --- a tokenizer inside of the trainer, and parameters ---
run 0 ./gpt2 export --output gpt2.safetensors
compile $small --tokenizer "$tokenizers/gpt2.json" --embed gpt2.safetensors gpt2.blu -o whole
holds 'bytes that it grew by' $(($(stat -c %s whole) - $(stat -c %s gpt2) - $(stat -c %s gpt2.safetensors) - $(stat -c %s "$tokenizers/gpt2.json"))) \
  'x > -8192 && x < 8192'
mkdir away
cp whole away
(cd away && ./whole sample --threads 1 --prompt "$prompt" --tokens 12 --temperature 0 --quiet) > out 2> err || fail "the embedded tokenizer: $(cat err)"
cmp out greedy || fail 'a sample with the embedded tokenizer'
run 0 ./whole info
says '^tokenizer +[0-9]+ bytes: '
run 0 ./gpt2 licenses
says 'UNICODE LICENSE V3'
refuses_embedding() { # pattern, status, arguments..
  run "$2" "$bluc" "${@:3}" -o refused
  one_line "$1"
  absent refused
}
refuses_embedding 'cannot open nowhere.json' 1 --tokenizer nowhere.json $small gpt2.blu
refuses_embedding 'not valid JSON' 1 --tokenizer text.gz $small gpt2.blu
refuses_embedding 'wide.json: it has 70001 tokens, but this program knows 448' 1 --tokenizer wide.json $small gpt2.blu
refuses_embedding 'no entry to sample from' 1 --tokenizer "$tokenizers/gpt2.json" "$top/models/softmax.blu"
refuses_embedding '--tokenizer is for making a trainer' 2 --tokenizer "$tokenizers/gpt2.json" --emit=opt gpt2.blu

# --- what sample refuses ---
compile "$top/models/softmax.blu" -o softmax
run 1 ./softmax sample
one_line '^error: this program has no entry to sample from'
run 0 ./softmax help
if grep -q '^  sample' out; then fail 'sample is offered where there is nothing to sample'; fi
if ./softmax licenses | grep UNICODE > /dev/null; then fail 'softmax has tables of Unicode'; fi
refuses_sample() { # pattern, status, arguments..
  run "$2" ./gpt2 sample --threads 1 "${@:3}"
  one_line "$1"
}
refuses_sample '^error: --tokenizer FILE must say what' 1 --prompt x
refuses_sample '^error: nowhere.json: No such file' 1 --tokenizer nowhere.json
refuses_sample '^error: the tokenizer has 70001 tokens, but this program knows 448$' 1 --tokenizer wide.json
refuses_sample 'nowhere holds no checkpoint' 1 $sample --out nowhere
refuses_sample '--logits x.csv: its name must end in .npy' 1 $sample --logits x.csv
refuses_sample 'option --temperature needs a number' 2 $sample --temperature hot
refuses_sample 'option --temperature needs a number' 2 $sample --temperature nan
refuses_sample 'option --top-p needs a number from 0 to 1' 2 $sample --top-p 1.1
refuses_sample 'option --min-p needs a number from 0 to 1' 2 $sample --min-p -1
refuses_sample 'option --top-k needs a whole number' 2 $sample --top-k -1
refuses_sample 'option --stop needs a text' 2 $sample --stop ''
run 1 bash -c "./gpt2 sample --threads 1 $sample --prompt x --tokens 5 > /dev/full"
complains 'cannot write to standard output'
# parameters that are not finite: no text, but an error
head -c $(($(stat -c %s gpt2.safetensors) - 64 * 4)) gpt2.safetensors > nan.safetensors
head -c 256 /dev/zero | tr '\0' '\377' >> nan.safetensors
run 0 ./gpt2 import nan.safetensors --out nan.run
run 1 ./gpt2 sample --threads 1 $sample --out nan.run --prompt x
complains '^error: the logits at position 0 are not finite'

# the arena of a sample is that of its entry, not that of training
if [ -z "${BLU_SANITIZED:-}" ]; then
  run 0 ./gpt2 info
  all=$(sed -n 's/^  arena *\([0-9]*\) = .*/\1/p' out)
  bash -c "ulimit -v $(((all + (24 << 20)) / 1024 / 2)); exec ./gpt2 sample --threads 1 $sample --prompt '$prompt' --tokens 12 --temperature 0" > out 2> err || fail "a sample takes as much memory as training, $all: $(cat err)"
  cmp out greedy || fail 'another sample in less memory'
fi
finish
