#!/usr/bin/env bash
# run.sh - the benchmarks; see --help. Each part prints one table; what is compared runs in turns, so that a disturbance meets both.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=$top/build rounds=5 threads=$(nproc) seconds=4 cpu=native smoke='' torch='' install='' parts=()

usage() {
  cat <<'END'
usage: tests/bench/run.sh [options] [PART..]

parts (default: all of them)
  mlp          perceptron 784-512-256-10, batch 64: samples/s with SGD and Adam
  transformer  GPTs of 4 layers 128 wide and of 6 layers 384 wide: tokens/s
  gpt2         GPT-2 124M, at B x T of 4 x 64, 4 x 256 and 1 x 1024: tokens/s and memory, PyTorch eager and compiled
  products     matrix products of GPT-2 124M's training step at 256 and 1024 rows: share of the multiply-add peak
  bandwidth    AdamW and layer norm: share of the triad's bandwidth
  compile      bluc: time of each stage, size of trainers, their start and memory

options
  --build DIR     where Blu is built (default: build)
  --rounds N      repetitions, of which median and range are printed (default 5)
  --threads N     default: all processors
  --seconds X     length of one measurement (default 4)
  --cpu LEVEL     of bluc (default native)
  --torch PYTHON  a Python with PyTorch, the peer; default BUILD/bench/torch/bin/python if it is there. Without one, the peer's
                  columns are empty
  --install-torch makes that one: a virtual environment with PyPI's torch, some gigabytes, in BUILD/bench/torch
  --smoke         everything once and as small as possible: does it still run?
  --help

For figures that mean something, run nothing else. Work files are in BUILD/bench.
END
}

fail() { echo "run.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
  --build) build=$2; shift ;;
  --rounds) rounds=$2; shift ;;
  --threads) threads=$2; shift ;;
  --seconds) seconds=$2; shift ;;
  --cpu) cpu=$2; shift ;;
  --torch) torch=$2; shift ;;
  --install-torch) install=yes ;;
  --smoke) smoke=yes rounds=1 seconds=0.2 ;;
  --help) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
  *) parts+=("$1") ;;
  esac
  shift || { usage >&2; exit 2; }
done
[ ${#parts[@]} -gt 0 ] || parts=(mlp transformer gpt2 products bandwidth compile)
bluc=$build/bin/bluc
[ -x "$bluc" ] || fail "there is no $bluc; --build says where Blu is built"
work=$build/bench
mkdir -p "$work" && cd "$work" || exit 1
if [ -n "$install" ]; then
  { python3 -m venv torch && torch/bin/pip install -q torch numpy; } || fail "PyTorch could not be installed"
fi
if [ -z "$torch" ] && [ -x torch/bin/python ]; then torch=$work/torch/bin/python; fi
if [ -n "$torch" ] && ! "$torch" -c 'import torch' 2> errors; then fail "$torch has no PyTorch: $(tail -n 1 errors)"; fi
cc -O3 -std=gnu11 -pthread "$here/machine.c" -o machine || fail "machine.c does not compile"

# Glibc that gives pages back after each step, and takes them again, would cost the peer a third.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=67108864 OMP_NUM_THREADS=$threads

middle='{ x[NR] = $1 } END { m = NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2;'
median() { sort -g "$1" | awk "$middle if (NR) print m }"; }
spread() { sort -g "$1" | awk "$middle"' if (NR) printf "%.4g [%.4g-%.4g]", m, x[1], x[NR]; else printf "-" }'; }

compile() { # output, arguments of bluc
  local out=$1
  shift
  "$bluc" --cpu="$cpu" "$@" -o "$out" || fail "$* does not compile"
}

# Steps per second of a trainer: between its first report and its last, so that neither start nor end counts.
speed() { # trainer, data folder, steps
  local every=$(($3 / 10 > 0 ? $3 / 10 : 1))
  rm -rf "$1.run"
  "./$1" train --data "$2" --out "$1.run" --steps "$3" --log-every "$every" --eval-every 0 --save-every 0 --threads "$threads" --quiet ||
    fail "$1 does not train"
  sed -n '/"split":"train"/ s/.*"step":\([0-9]*\),.*"time":\([0-9.]*\).*/\1 \2/p' "$1.run/metrics.jsonl" |
    awk 'NR == 1 { s = $1; t = $2 } { n = $1; u = $2 } END { if (u > t) printf "%.6g\n", (n - s) / (u - t); else print 1e-9 }'
}

# Interleaved rounds of a trainer and its peer. Steps of a round are chosen to take about `seconds`.
duel() { # title, trainer, data, units per step, peer's arguments ..
  local title=$1 trainer=$2 data=$3 units=$4
  shift 4
  local n=4 s
  s=$(speed "$trainer" "$data" 20) || exit 1
  n=$(awk -v s="$s" -v t="$seconds" 'BEGIN { n = int(s * t); print n < 20 ? 20 : n }')
  : > ours; : > peers
  for ((i = 0; i < rounds; i++)); do
    speed "$trainer" "$data" "$n" | awk -v u="$units" '{ print $1 * u }' >> ours
    if [ -n "$torch" ]; then "$torch" "$@" "$threads" "$seconds" >> peers || fail "the peer failed"; fi
  done
  local ratio=-
  if [ -n "$torch" ]; then ratio=$(awk -v a="$(median ours)" -v b="$(median peers)" 'BEGIN { printf "%.2f", a / b }'); fi
  printf '%-34s %-32s %-32s %s\n' "$title" "$(spread ours)" "$(spread peers)" "$ratio"
}

table() { printf '\n%s\n%-34s %-32s %-32s %s\n' "$1" '' Blu "PyTorch${torch:+ $("$torch" -c 'import torch; print(torch.__version__)')}" ratio; }

part_mlp() {
  mkdir -p mlp.data
  for split in '' test_; do
    ./machine npy "mlp.data/${split}image.npy" f4 1 6400 784 && ./machine npy "mlp.data/${split}label.npy" u1 10 6400 || fail 'no data'
  done
  table 'samples/s: median [range]'
  compile mlp_sgd "$here/mlp.blu"
  compile mlp_adam -D kind=1 "$here/mlp.blu"
  duel 'perceptron, SGD' mlp_sgd mlp.data 64 "$here/mlp_torch.py" sgd
  duel 'perceptron, Adam' mlp_adam mlp.data 64 "$here/mlp_torch.py" adam
}

part_transformer() {
  mkdir -p text.data
  cat "$top"/docs/*.md "$top"/docs/*.md "$top"/docs/*.md > text.data/train.txt
  table 'tokens/s: median [range]'
  compile gpt_small "$here/transformer.blu"
  duel '4 layers, 128 wide, B 12, T 64' gpt_small text.data 768 "$here/transformer_torch.py" 4 4 128 64 12
  [ -z "$smoke" ] || return 0
  compile gpt_middle -D L=6 -D H=6 -D D=384 -D T=256 "$here/transformer.blu"
  duel '6 layers, 384 wide, B 12, T 256' gpt_middle text.data 3072 "$here/transformer_torch.py" 6 6 384 256 12
}

# All of GPT-2 124M. PyTorch's better one counts, in speed and in memory each.
part_gpt2() {
  local shape='-D L=12 -D H=12 -D D=768 -D V=50257' peer='12 12 768' sizes='4x64 4x256 1x1024' vocabulary=50257 steps=6
  [ -z "$smoke" ] || shape='-D L=1 -D H=2 -D D=32 -D V=300' peer='1 2 32' sizes=2x16 vocabulary=300 steps=2
  mkdir -p text.data
  cat "$top"/docs/*.md "$top"/docs/*.md "$top"/docs/*.md > text.data/train.txt
  printf '\nGPT-2 124M: tokens/s, median [range]; peak resident MiB\n%-10s %-24s %-24s %-24s %6s %8s %8s %6s\n' 'B x T' Blu PyTorch compiled ratio Blu PyTorch ratio
  for size in $sizes; do
    local b=${size%x*} t=${size#*x} memory
    # shellcheck disable=SC2086
    compile gpt2 $shape -D T="$t" -D B="$b" "$here/transformer.blu"
    rm -f ours memory; : > eager; : > compiled
    for ((i = 0; i < rounds; i++)); do
      speed gpt2 text.data "$steps" | awk -v u=$((b * t)) '{ print $1 * u }' >> ours
      [ -n "$torch" ] || continue
      for kind in eager compiled; do
        local how=
        [ $kind = eager ] || how=compile
        # shellcheck disable=SC2086
        "$torch" "$here/transformer_torch.py" $peer "$t" "$b" "$threads" "$seconds" $vocabulary $how >> $kind 2> errors || fail "the peer failed: $(tail -n 1 errors)"
      done
    done
    rm -rf gpt2.run
    ./machine run memory ./gpt2 train --data text.data --out gpt2.run --steps 2 --eval-every 0 --save-every 0 --threads "$threads" --quiet || fail "gpt2 does not train"
    memory=$(awk '{ printf "%.0f", $2 }' memory)
    printf '%-10s %-24s %-24s %-24s' "$size" "$(spread ours)" "$(spread eager)" "$(spread compiled)"
    if [ -n "$torch" ]; then
      printf '%s %s\n' "$(median eager)" "$(median compiled)" | awk -v a="$(median ours)" '{ printf " %6.2f", a / ($1 > $2 ? $1 : $2) }'
      sort -g -k 2 eager compiled | awk -v m="$memory" 'NR == 1 { printf " %8.0f %8.0f %6.2f\n", m, $2, m / $2 }'
    else
      printf ' %6s %8.0f %8s %6s\n' - "$memory" - -
    fi
  done
}

# The rates of a model's kernels. The peak is measured around each run, and the best of them counts.
rates() { # name, data folder, steps, products or others, arguments of bluc ..
  local name=$1 data=$2 steps=$3 only=$4
  shift 4
  compile "$name" "$@"
  "$bluc" --cpu="$cpu" --emit=kernels "$@" > "$name.kernels" || fail "no kernels of $name"
  : > peaks; : > triads
  for ((i = 0; i < rounds; i++)); do
    ./machine peak "$threads" >> peaks && ./machine triad "$threads" >> triads || fail 'the machine was not measured'
    rm -rf "$name.run"
    "./$name" train --data "$data" --out "$name.run" --steps "$steps" --eval-every 0 --save-every 0 --threads "$threads" --profile > "$name.profile.$i" ||
      fail "$name does not train"
  done
  local peak triad
  peak=$(sort -g peaks | tail -n 1) triad=$(sort -g triads | tail -n 1)
  for ((i = 0; i < rounds; i++)); do
    awk -v peak="$peak" -v triad="$triad" -v only="$only" -f "$here/kernels.awk" "$name.kernels" "$name.profile.$i" > "$name.rates.$i"
  done
  echo "multiply-adds $peak GFLOP/s, triad $triad GB/s, $threads threads; the round of median time, then all rounds' shares"
  for ((i = 0; i < rounds; i++)); do # by time of the longest kernel or of all products
    printf '%s %s\n' "$(awk '/^all products/ { t = $3 } NR == 1 { f = $4 } END { print t ? t : f }' "$name.rates.$i")" "$i"
  done | sort -g > order
  cat "$name.rates.$(awk '{ i[NR] = $2 } END { print i[int((NR + 1) / 2)] }' order)"
  [ "$only" != matmul ] || for ((i = 0; i < rounds; i++)); do tail -n 1 "$name.rates.$i" | awk '{ printf "%s ", $NF } '; done
  echo
}

part_products() {
  local all_rows='256 1024' d=768 v=50257 l=12
  [ -z "$smoke" ] || all_rows=32 d=96 v=97 l=2
  for rows in $all_rows; do
    mkdir -p products.data
    for split in '' test_; do
      ./machine npy "products.data/${split}x.npy" f4 1 $((4 * rows)) $d && ./machine npy "products.data/${split}label.npy" i4 $v $((4 * rows)) ||
        fail 'no data'
    done
    printf "\nmatrix products of GPT-2's training step, %s rows\n" "$rows"
    rates products products.data 4 matmul -D R="$rows" -D D=$d -D V=$v -D L=$l "$here/products.blu"
  done
}

part_bandwidth() {
  local d=1024 r=16384
  [ -z "$smoke" ] || d=64 r=48
  mkdir -p bandwidth.data
  for split in '' test_; do ./machine npy "bandwidth.data/${split}weight.npy" f4 1 "$r" || fail 'no data'; done
  printf '\nkernels bound by memory: bytes of operands and results, each once\n'
  rates bandwidth bandwidth.data 6 others -D R="$r" -D D="$d" "$here/bandwidth.blu"
}

part_compile() {
  printf '\ncompiling: ms, medians\n%-26s %8s %8s %8s %8s %8s %8s %10s %8s %8s\n' model front passes llvm code link all 'size KB' 'start ms' 'bluc MB'
  local models=("softmax:$top/models/softmax.blu" "fashion:$top/models/fashion.blu" "2 layers 128 wide:-D L=2 $here/transformer.blu")
  [ -n "$smoke" ] || models+=("12 layers 768 wide:-D L=12 -D H=12 -D D=768 -D V=50257 -D T=256 -D B=1 $here/transformer.blu")
  for m in "${models[@]}"; do
    rm -f stage.* memory start
    for ((i = 0; i < rounds; i++)); do
      # shellcheck disable=SC2086
      "$bluc" --cpu="$cpu" --time ${m#*:} -o model 2>&1 | awk '
        $3 == "front" { t["front"] += $1 } $3 == "llvm" { t["llvm"] += $1 } $3 == "machine" { t["code"] += $1 } $3 == "link" { t["link"] += $1 }
        $3 == "in" { t["all"] += $1 } END { t["passes"] = t["all"] - t["front"] - t["llvm"] - t["code"] - t["link"]
        for (s in t) print t[s] >> ("stage." s) }'
      # shellcheck disable=SC2086
      ./machine run memory "$bluc" --cpu="$cpu" ${m#*:} -o model && ./machine run start ./model source > /dev/null || fail "${m%%:*} does not compile"
    done
    awk '{ print $1 * 1000 }' start > starts
    awk '{ print $2 }' memory > sizes
    printf '%-26s' "${m%%:*}"
    for s in front passes llvm code link all; do printf ' %8.1f' "$(median stage.$s)"; done
    printf ' %10.1f %8.1f %8.1f\n' "$(awk -v b="$(stat -c %s model)" 'BEGIN { print b / 1000 }')" "$(median starts)" "$(median sizes)"
  done
}

processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
echo "$processor, $(nproc) processors, load $(cut -d ' ' -f 1 /proc/loadavg); $("$bluc" --version), --cpu=$cpu, $threads threads, $rounds rounds"
for part in "${parts[@]}"; do
  declare -F "part_$part" > /dev/null || fail "there is no part $part"
  "part_$part"
done
