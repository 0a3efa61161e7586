#!/usr/bin/env bash
# demo.sh - from a fresh clone on Debian 12 to a trained model: installs the packages that are missing, builds the compiler, compiles
# models/fashion.blu, trains it on Fashion-MNIST, and says what to try next. May be run again: each run trains into a new folder.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../cmake/packages.sh"

usage() {
  cat << EOF_USAGE
usage: models/demo.sh

Builds Blu, compiles models/fashion.blu and trains it on Fashion-MNIST; results are in build/demo. On Debian 12 it first installs what
is missing, as root or with sudo. About 3 minutes the first time, half a minute after that.

exit status: 0 good, 1 something failed, 2 usage, 130 stopped (Ctrl-C)
EOF_USAGE
}

# The number of a metric in the last line of test results; nothing if there is none.
last_test() { # metric, metrics.jsonl
  sed -n '/"split":"test"/ s/.*"'"$1"'":\(-*[0-9.e+-]*\)[,}].*/\1/p' "$2" | tail -n 1
}

compile() {
  local start size cpu=''
  blu_has_avx2 || cpu=--cpu=native
  start=$(date +%s%N)
  build/bin/bluc $cpu models/fashion.blu -o build/demo/fashion || blu_fail "bluc could not compile models/fashion.blu"
  size=$(stat -c %s build/demo/fashion)
  echo "compile: models/fashion.blu -> build/demo/fashion, $(((size + 512) / 1024)) KB, $((($(date +%s%N) - start) / 1000000)) ms"
  if ldd build/demo/fashion > /dev/null 2>&1; then blu_fail "build/demo/fashion is not static"; fi
  echo "         one static program: it needs neither Blu nor a library, only Linux on an x86-64 processor like this one"
}

# The first run folder that isn't there yet.
new_run() {
  local n=1
  while [ -e "build/demo/run$n" ]; do n=$((n + 1)); done
  echo "build/demo/run$n"
}

train() { # run folder
  local status=0
  echo "train:   build/demo/fashion train --out $1"
  echo
  if [ -t 1 ]; then build/demo/fashion train --out "$1" || status=$?
  else build/demo/fashion train --out "$1" | sed -u '/^epoch .*  step /d' || status=$?  # lines for epochs only
  fi
  if [ $status = 130 ]; then
    echo "stopped; go on with: build/demo/fashion train --out $1 --resume"
    exit 130
  fi
  [ $status = 0 ] || blu_fail "training failed"
}

report() { # run folder
  local accuracy loss checkpoint
  accuracy=$(last_test accuracy "$1/metrics.jsonl")
  loss=$(last_test loss "$1/metrics.jsonl")
  checkpoint=$(ls -d "$1"/step-* | sort -t - -k 2 -n | tail -n 1)
  echo
  echo "test accuracy  ${accuracy:-none}   (loss ${loss:-none}, 10,000 images that were not trained on)"
  echo "checkpoint     $checkpoint/model.safetensors"
  echo "metrics        $1/metrics.jsonl"
  # at least what the model promises; NaN is nothing
  awk -v a="${accuracy:-0}" 'BEGIN { exit !(a + 0 >= 0.885) }' ||
    blu_fail "the test accuracy should be 0.885 at least: this build is not right, ./tests/run.sh will say more"
}

try() { printf '  %-84s %s\n' "$1" "$2"; }

what_next() { # folder of the user, run folder
  echo
  if [ "$1" = "$BLU_TOP" ]; then echo 'What to try next:'; else echo "What to try next, in $BLU_TOP:"; fi
  try 'build/demo/fashion info' 'parameters, memory, functions'
  try "build/demo/fashion eval --out $2" 'the checkpoint on the test images'
  try 'build/demo/fashion train --out build/demo/other --set lr=5e-4 --seed 2' 'Ctrl-C stops it, --resume goes on'
  try 'build/bin/bluc --emit=opt models/fashion.blu' 'loss, gradients, optimizer as one function'
  try 'build/bin/bluc models/softmax.blu -o build/demo/softmax' 'a smaller model; read it, change it'
  try 'build/bin/bluc -D B=50 models/fashion.blu -o build/demo/small' 'the same model, batches of 50'
}

case ${1:-} in
  '') ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
from=$PWD
cd "$BLU_TOP"
blu_machine_ready
blu_build build bluc
mkdir -p build/demo
compile
run=$(new_run)
train "$run"
report "$run"
what_next "$from" "$run"
