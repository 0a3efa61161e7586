#!/bin/sh
# verify_models.sh BLUC MODELS: `bluc verify` holds for models/softmax.blu and the models of the folder verify/, in what it checks and in
# its exit status; jagged.blu, whose loss has kinks everywhere, is refused.
bluc=$1 models=$2 failed=0 n=0
cd "$(dirname "$0")/verify" || exit 2
out=$(mktemp) || exit 2
trap 'rm -f "$out"' EXIT
complain() { echo "FAIL $1"; cat "$out"; failed=1; }

for model in *.blu "$models/softmax.blu"; do
  n=$((n + 1))
  "$bluc" verify --rounds 3 "$model" > "$out" 2>&1
  status=$?
  case $model in
    jagged.blu)
      [ $status = 1 ] || complain "$model: exit status $status"
      grep -q '^  FAILED  gradient of w: a finite loss without kinks was not found' "$out" || complain "$model: kinks are not noticed"
      continue ;;
    kinks.blu) grep -q 'held    gradient of w .* step 1e-0[67]$' "$out" || complain "$model: kinks are crossed" ;;
  esac
  [ $status = 0 ] || complain "$model: exit status $status"
  grep -q '^round 3 of 3, seed 3$' "$out" || complain "$model: not three rounds"
  grep -Eq '^[0-9]+ checks, 0 failed; [0-9]+ directions crossed a kink and were redrawn; ' "$out" || complain "$model: no summary"
  # every parameter, all of them together, every pass; once a round
  params=$(sed -n 's/^[0-9]* parameters in \([0-9]*\) tensors; .*/\1/p' "$out")
  [ "$(grep -c '^  held    gradient of ' "$out")" = $((3 * (params + 1))) ] || complain "$model: not a gradient for each of $params parameters"
  [ "$(grep -c '^  held    pass ' "$out")" = 27 ] || complain "$model: not 9 passes a round"
done

# The same numbers with the same seed, others with another; what is wrong with options is said.
for seed in 1 1 2; do "$bluc" verify --seed=$seed --rounds=1 perceptron.blu | grep 'gradient of' | cksum; done > "$out"
[ "$(sed -n 1p "$out")" = "$(sed -n 2p "$out")" ] || complain "the same seed, other numbers"
[ "$(sed -n 1p "$out")" = "$(sed -n 3p "$out")" ] && complain "another seed, the same numbers"
for wrong in --rounds=0 --rounds=x --seed=-1 --seed=; do
  "$bluc" verify $wrong perceptron.blu > "$out" 2>&1
  [ $? = 2 ] && grep -q '^bluc: --[a-z]* takes a number' "$out" || complain "verify $wrong"
done
"$bluc" --rounds=2 perceptron.blu > "$out" 2>&1
[ $? = 2 ] || complain "--rounds without verify"
for wrong in '-o name' --emit=ast; do
  "$bluc" verify $wrong perceptron.blu > "$out" 2>&1
  [ $? = 2 ] && [ "$(wc -l < "$out")" = 1 ] || complain "verify $wrong"
done
"$bluc" verify none.blu > "$out" 2>&1
[ $? = 1 ] && grep -q 'none.blu: error' "$out" || complain "a missing model"
if [ $n -lt 5 ]; then echo "FAIL only $n models"; failed=1; fi
echo "$n models"
exit $failed
