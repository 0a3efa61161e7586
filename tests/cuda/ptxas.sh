# ptxas.sh BLUC MODELS - CUDA's assembler takes what bluc makes: every model for the oldest and the newest architecture, two for all of them;
# and no kernel spills registers.
bluc=$1 models=$2 failed=0 n=0
if ! command -v ptxas > /dev/null && [ ! -x /usr/local/cuda/bin/ptxas ]; then
  echo "SKIPPED: there is no ptxas"
  exit 0
fi
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
compile() { # ARCHS MODEL, options of bluc..
  n=$((n + 1))
  archs=$1 model=$2
  shift 2
  if ! "$bluc" --target=cuda --arch="$archs" --emit=ptx "$@" "$model" -o "$scratch/ptx" 2> "$scratch/said"; then
    echo "FAIL $model for $archs:"; cat "$scratch/said"; failed=1
  elif ! grep -q '^// .*; [0-9][0-9]*, [0-9][0-9]*, [0-9][0-9]*$' "$scratch/ptx"; then
    echo "FAIL $model for $archs: no registers are told"; failed=1
  elif grep '^// .*; [0-9][0-9]*, [1-9][0-9]*, [0-9]*$' "$scratch/ptx"; then
    echo "FAIL $model for $archs: what a kernel has in registers goes to memory"; failed=1
  fi
}
for model in "$models"/*.blu; do
  case $model in
    */fashion.blu | */gpt_char.blu) compile sm_80,sm_86,sm_89,sm_90,sm_90a,sm_100,sm_120 "$model" ;;
    *) compile sm_80,sm_120 "$model" ;;
  esac
done
for heads in 12 6; do compile sm_80,sm_86,sm_89,sm_90,sm_100,sm_120 "$models/gpt2.blu" -D H=$heads -D L=1 -D V=256 -D S=128 -D B=2; done # of 64 numbers, of 128
[ $n -gt 2 ] || { echo "FAIL there are no models"; failed=1; }
echo "$n models"
exit $failed
