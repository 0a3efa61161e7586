# ptxas.sh BLUC MODELS - CUDA's assembler takes what bluc makes: every model for the oldest and the newest architecture, two for all of them.
bluc=$1 models=$2 failed=0 n=0
if ! command -v ptxas > /dev/null && [ ! -x /usr/local/cuda/bin/ptxas ]; then
  echo "SKIPPED: there is no ptxas"
  exit 0
fi
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
compile() { # ARCHS MODEL
  n=$((n + 1))
  if ! "$bluc" --target=cuda --arch="$1" --emit=ptx "$2" -o "$scratch/ptx" 2> "$scratch/said"; then
    echo "FAIL $2 for $1:"; cat "$scratch/said"; failed=1
  elif ! grep -q '^// .*; [0-9][0-9]*, [0-9][0-9]*$' "$scratch/ptx"; then
    echo "FAIL $2 for $1: no registers are told"; failed=1
  fi
}
for model in "$models"/*.blu; do
  case $model in
    */fashion.blu | */gpt_char.blu) compile sm_80,sm_86,sm_89,sm_90,sm_90a,sm_100,sm_120 "$model" ;;
    *) compile sm_80,sm_120 "$model" ;;
  esac
done
[ $n -gt 0 ] || { echo "FAIL there are no models"; failed=1; }
echo "$n models"
exit $failed
