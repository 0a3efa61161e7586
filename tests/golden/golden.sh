# golden.sh BLUC CHECKOUT FOLDER BLU_OPT GOLDEN NAME - NAME.blu gives the numbers of NAME.safetensors, which make.py had from PyTorch in
# double: loss, gradients and outputs by the interpreter, which computes in double too; then by the trainer, in f32, the same and ten steps.
. "$(dirname "$0")/../e2e/common.sh"
opt=$4 golden=$5 name=$6
files=$top/tests/golden

# Numbers of the interpreter. It rounds constants to f32, as Blu defines them: the eps of a norm changes the tenth digit.
double=1e-9
case $name in
  gpt2 | recipe | llama | vit) double=1e-7 ;; # the coefficients of gelu_tanh, the base of rotary positions, sqrt(1 / 2) in gelu
  ops) double=6e-8 ;;                         # 2 / sqrt(pi) of erf, 1 / 5 of std and variance: half a digit of f32
  optimizers) double=3e-7 ;;                  # 1 - 0.999 and 3.4445
esac
# Numbers of the trainer; losses are means of numbers whose rounding cancels.
single=1e-5 loss=1e-6
case $name in # a sum in f32 may be on the other side of a tie: then one number of the type stands for its neighbour
  bf16) single=8e-3 loss=1e-3 ;;
  f16) single=1e-3 loss=2e-4 ;;
esac

# Compares with a file, or with standard input; everything is shown, the first that fail also as the reason.
holds_to() { "$golden" "$@" > held || { fail "golden $*"; grep FAILED held | head -n 5; }; sed 's/^/  /' held; }

self() {
  mkdir data start
  local g=$files/ignored.safetensors
  run 0 "$golden" unpack "$g" .
  run 0 "$golden" file "$g" param start.safetensors 0 # what was unpacked is what it was
  run 1 "$golden" file "$g" grad start.safetensors 1e-1
  says '^FAILED  grad logits'
  run 1 "$golden" file "$g" param start.safetensors 0 :m
  says 'not there'
  run 1 "$golden" file "$g" none start.safetensors 0
  says 'nothing to compare'
  loss_is() { printf 'weight loss: f32 = 8\n%s\n' "$1" | "$golden" printed "$g" sum sum 1e-6 > out; }
  local right
  right=$("$golden" printed "$g" sum sum 0 <<< 'sum loss: f32 = 0' | sed -n 's/.* not //p')
  loss_is "sum loss: f32 = $right" || fail "the right number $right is refused"
  for wrong in nan -nan inf "$(awk -v x="$right" 'BEGIN { printf "%.17g", x * (1 + 2e-6) }')" '' "$right, 1"; do
    if loss_is "sum loss: f32 = $wrong"; then fail "'$wrong' passes for $right"; fi
  done
  for lines in '{"split":"train","loss":1}' ''; do
    if "$golden" metrics "$g" losses loss 1 <<< "$lines" > out; then fail "losses '$lines' pass"; fi
  done
}

schedules() {
  printf '1\n' > train.csv
  for schedule in constant linear cosine step warmup_cosine one_cycle; do
    compile -D SCHEDULE=$schedule "$files/schedules.blu" -o $schedule
    run 0 ./$schedule train --out $schedule.run --log-every 1 --quiet
    holds_to metrics "$files/schedules.safetensors" "rates $schedule" lr 1e-8 < $schedule.run/metrics.jsonl # %.9g
  done
}

# The function has an argument of this name.
takes() { grep -q "func.func @$1(.*blu.name = \"$2\", blu.role = \"[dips].* -> " "$3"; } # function, name, IR

# Runs the function on the inputs of the given folders.
interpret() { # IR, function, options.. -- folders of inputs..
  local ir=$1 function=$2 options=()
  shift 2
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  for file in $(find "$@" -name '*.npy'); do
    local input
    input=$(basename "$file" .npy)
    if takes "$function" "$input" $ir; then options+=("--input=$input=$file"); fi
  done
  run 0 "$opt" --run="$function" --full "${options[@]}" $ir
}

model() {
  local g=$files/$name.safetensors
  mkdir data start
  run 0 "$golden" unpack "$g" .

  run 0 "$bluc" --emit=blu "$files/$name.blu"
  mv out blu.mlir
  run 0 "$opt" -pass=bounds -pass=differentiate blu.mlir
  mv out grad.mlir
  interpret grad.mlir train -- data start
  for kind in sum weight grad; do holds_to printed "$g" $kind $kind $double < out; done
  if grep -q 'func.func @output' grad.mlir; then
    interpret grad.mlir output -- data start
    holds_to printed "$g" output output $double < out
  fi

  compile "$files/$name.blu" -o trainer
  run 0 ./trainer import start.safetensors --out run
  if grep -q 'func.func @output' grad.mlir; then
    local inputs=() input
    for file in data/*.npy; do
      input=$(basename "$file" .npy)
      if takes output "$input" grad.mlir; then inputs+=("$input=$file"); fi
    done
    run 0 ./trainer predict --entry output "${inputs[@]}" --out run --output output.npy
    holds_to array "$g" "output output" output.npy $single
  fi
  run 0 ./trainer train --resume --data data --out run --log-every 1 --save-every 1 --keep 20 --quiet
  holds_to metrics "$g" losses loss $loss < run/metrics.jsonl
}

# After the first step of sgd with momentum, the momentum is the gradient.
gradients() { holds_to file "$files/$name.safetensors" grad run/step-1/state.safetensors $single :m; }

# Ten steps of the optimizers by the interpreter, each from what the one before printed.
steps() {
  run 0 "$bluc" --emit=grad "$files/$name.blu"
  mv out step.mlir
  cp -r start state
  for step in 0 1 2 3 4 5 6 7 8 9; do
    local more=()
    [ $step = 0 ] && more=($(grep -o 'blu.name = "[a-z_0-9.]*:[a-z]*"' step.mlir | sed 's/.*"\(.*\)"/--input=\1=0/' | sort -u))
    interpret step.mlir train --input=step=$step "${more[@]}" -- data state
    "$golden" next state < out || fail "step $step"
  done
  holds_to printed "$files/$name.safetensors" last param $double < out
  holds_to file "$files/$name.safetensors" last run/step-10/model.safetensors $single
}

statistics() { holds_to file "$files/$name.safetensors" last run/step-10/state.safetensors $single; } # of batch norm

case $name in
  self | schedules) $name ;;
  lenet) model && gradients && statistics ;;
  recipe) model ;; # a bias of keys has no gradient but rounding, of which AdamW makes steps: parameters say nothing
  optimizers) model && steps ;;
  *) model && gradients ;;
esac
finish
