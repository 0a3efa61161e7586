#!/usr/bin/env bash
# run.sh - checks and measures trainers for a GPU on a GPU, in the folder that pack.sh made (where this script lies); see --help.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd) most=285 smoke='' logs='' python=$(command -v python3 || true) parts=()

usage() {
  cat <<'END'
usage: run.sh [options] [PART..]

parts (default: all, in this order)
  ops        entries of one kind of kernel each, the processor beside it
  losses     the first losses of each model, the processor beside it; the same bits twice; checkpoints of the one taken up by the other
  speed      a step of the models that have a peer: milliseconds, and the device's memory
  sanitizer  NVIDIA's compute-sanitizer on small models
  torch      the peers in PyTorch, as they are and compiled by torch.compile
  rest       a step of the other models

options
  --limit SECONDS  for everything (default 285); what comes too late is skipped, and says so
  --python PYTHON  with PyTorch (default: python3)
  --logs FOLDER    keeps what was printed, and profiles of the kernels
  --smoke          short measurements, PyTorch on the processor: does it all run?
  --help

Needs NVIDIA's driver and cublasLt (LD_LIBRARY_PATH may name its folder), and no network; compute-sanitizer and PyTorch are used if they are there.
The table comes last, whatever happens before. Exit status: 0 all good or skipped, 1 something is wrong, 2 usage.
END
}

while [ $# -gt 0 ]; do
  case $1 in
  --limit) most=${2:-} ;;
  --python) python=${2:-} ;;
  --logs) logs=${2:-} ;;
  --smoke) smoke=1 ;;
  --help) usage; exit 0 ;;
  ops | losses | speed | sanitizer | torch | rest) parts+=("$1") ;;
  *) usage >&2; exit 2 ;;
  esac
  case $1 in
  --limit | --python | --logs) shift ;;
  esac
  shift || { usage >&2; exit 2; }
done
[ ${#parts[@]} -gt 0 ] || parts=(ops losses speed sanitizer torch rest)
[[ $most =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }
if [ -n "$logs" ]; then mkdir -p "$logs" && logs=$(cd "$logs" && pwd) || exit 2; fi
# Checkpoints of GPT-2 are 1.5 GB: in memory, if there is much of it.
in=${TMPDIR:-/tmp}
if [ "$(df -Pk /dev/shm 2> /dev/null | awk 'NR == 2 { print int($4 / 1048576) }')" -ge 16 ] 2> /dev/null; then in=/dev/shm; fi
work=$(mktemp -d -p "$in") || exit 2
cd "$folder" || exit 2
bad=0 part=start child=
mkdir "$work/speed"
: > "$work/table"

row() { # what, result
  printf '%-44s %s\n' "$1" "$2" | tee -a "$work/table"
  case $2 in FAILED*) bad=1 ;; esac
}

# A model's figure: "MS MIB" or nothing.
figure() { cat "$work/speed/$1.$2" 2> /dev/null || true; }

exec 3>&1 4>&2
finish() {
  trap - EXIT INT TERM
  exec >&3 2>&4 # a signal may come where output goes to a log
  [ -z "$child" ] || kill "$child" 2> /dev/null
  [ $part = end ] || row "part $part" 'FAILED: it was stopped, and what comes behind it is missing'
  printf '\n%-44s %s\n' check result
  cat "$work/table"
  if [ -n "$(ls "$work/speed")" ]; then
    printf '\n%-12s %10s %8s %10s %12s %12s %12s %8s\n' 'a step' 'Blu ms' TFLOP/s 'Blu MiB' 'PyTorch ms' 'compiled ms' 'PyTorch MiB' ratio
    while read -r name _; do
      # shellcheck disable=SC2046
      awk -v name="$name" -v a="$(figure $name blu)" -v b="$(figure $name eager)" -v c="$(figure $name compiled)" 'BEGIN {
        split(a, x, " "); split(b, y, " "); split(c, z, " ")
        if (x[1] == "" && y[1] == "") exit
        best = y[1]; memory = y[2]
        if (z[1] != "" && z[1] + 0 < best + 0) { best = z[1]; memory = z[2] }
        ratio = x[1] != "" && best != "" ? sprintf("%.2f", best / x[1]) : ""
        printf "%-12s %10s %8s %10s %12s %12s %12s %8s\n", name, x[1], x[3], x[2], y[1], z[1], memory, ratio }'
    done < models.txt
    echo 'Blu reads its batches and the losses of every step; PyTorch has its batches on the device. Memory: at most, of the device; PyTorch MiB of the faster one.'
    echo 'ratio: the faster one of PyTorch by Blu, in time. FP32 without TF32 on both sides, fused optimizers and scaled_dot_product_attention in PyTorch.'
  fi
  [ -z "$logs" ] || cp "$work"/*.log "$work"/*.profile "$work"/*.torch "$work/table" "$logs" 2> /dev/null
  rm -rf "$work"
  exit $bad
}
trap finish EXIT
trap 'bad=1; finish' INT TERM

left() { echo $((most - SECONDS)); }
# Runs a command for at most so many seconds of those that are left. 124: it took too long.
limited() { # seconds, command..
  local seconds=$1
  shift
  [ -z "$smoke" ] || seconds=$((10 * seconds)) # an emulated device is slow
  if [ "$(left)" -lt "$seconds" ]; then seconds=$(left); fi
  [ "$seconds" -gt 0 ] || return 124
  timeout -k 3 "$seconds" "$@" < /dev/null & # so that a signal is heard while it runs
  child=$!
  wait $child
}
# Is there time for something that takes so many seconds? If not, says so.
time_for() { # seconds, what
  [ "$(left)" -ge "$1" ] && return
  row "$2" 'SKIPPED: out of time'
  return 1
}
failed() { # exit status, log
  if [ "$1" = 124 ] || [ "$1" = 137 ]; then echo 'FAILED: it took too long'; else echo "FAILED: $(grep -v '^emulated: no GPU' "$2" | tail -n 1 | cut -c 1-120)"; fi
}

gpu=$(limited 60 ./softmax.gpu info 2> "$work/log" | sed -n 's/^device  *//p')
case $gpu in
'' | none*)
  row 'trainers on a GPU' "SKIPPED: ${gpu:-no answer}"
  part=end
  exit
  ;;
esac
row "$(limited 60 ./softmax.gpu info 2> "$work/log" | sed -n 's/^images  */images: /p')" "$gpu"
if [[ $gpu = *emulated* ]]; then row 'times below' 'mean nothing: the device is emulated'; fi

column() { sed -n '/"split":"train"/ s/.*"'"$1"'":\([^,}]*\)[,}].*/\1/p' "$2/metrics.jsonl" 2> "$work/log"; } # metric, run
# Numbers of two files, line by line: the largest difference by the larger of size and 1, or "other": other lines, or one that is no number.
apart() { paste -d ' ' "$1" "$2" | awk '{ n = NF / 2; if (n != int(n) || !n) bad = 1
  for (i = 1; i <= n; i++) { d = $i - $(i + n); if (d < 0) d = -d; s = $i < 0 ? -$i : $i; if (s < 1) s = 1
    if (!(d >= 0) || $i !~ /^[-+0-9.e]+$/ || $(i + n) !~ /^[-+0-9.e]+$/) bad = 1; else if (d / s > most) most = d / s } }
  END { if (bad || !NR) print "other"; else printf "%.1e", most }'; }
under() { awk -v x="$1" -v most="$2" 'BEGIN { exit !(x != "other" && x + 0 <= most) }'; }
compared() { # what, file, file
  local difference
  difference=$(apart "$2" "$3")
  if under "$difference" 1e-4; then row "$1" "good, apart by $difference"; else row "$1" "FAILED: apart by $difference"; fi
}
train() { # trainer, run, data, options..
  local trainer=$1 run=$2 data=$3
  shift 3
  rm -rf "$run"
  limited 60 "./$trainer" train --data "$data" --out "$run" --eval-every 0 --save-every 0 --quiet "$@" > "$work/$trainer.log" 2>&1
}

part_ops() {
  local entry kind code
  while read -r entry; do
    time_for 5 "op: $entry" || continue
    code=0
    for kind in cpu gpu; do
      limited 30 ./ops.$kind predict --entry "$entry" x.csv --output "$work/$kind.csv" > "$work/log" 2>&1 || { code=$?; break; }
      tr ',' ' ' < "$work/$kind.csv" > "$work/$kind.numbers"
    done
    if [ $code = 0 ]; then compared "op: $entry" "$work/cpu.numbers" "$work/gpu.numbers"; else row "op: $entry" "$(failed $code "$work/log")"; fi
  done < ops.txt
}

part_losses() {
  local name data steps kind code
  while read -r name data steps _; do
    [ "$steps" -gt 0 ] || continue
    time_for 10 "losses: $name" || continue
    code=0
    for kind in cpu gpu; do train $name.$kind "$work/$name.$kind" "$data" --steps "$steps" --log-every 1 || { code=$?; break; }; done
    if [ $code != 0 ]; then row "losses: $name, $kind" "$(failed $code "$work/$name.$kind.log")"; continue; fi
    for kind in cpu gpu; do column loss "$work/$name.$kind" > "$work/$kind.numbers"; done
    if [ "$(wc -l < "$work/gpu.numbers")" = "$steps" ]; then compared "losses: $name, $steps" "$work/cpu.numbers" "$work/gpu.numbers"
    else row "losses: $name" 'FAILED: not so many steps'; fi
    [ $name = fashion ] || rm -rf "$work/$name".[cg]pu
  done < models.txt
  time_for 20 'the same bits twice: fashion' || return
  train fashion.gpu "$work/again" images --steps 10 --log-every 1
  if cmp -s "$work/fashion.gpu/step-10/model.safetensors" "$work/again/step-10/model.safetensors"; then row 'the same bits twice: fashion' good
  else row 'the same bits twice: fashion' FAILED; fi
  rm -rf "$work/mixed"
  cp -r "$work/fashion.cpu" "$work/mixed"
  if limited 30 ./fashion.gpu train --data images --resume --steps 20 --quiet --out "$work/mixed" > "$work/log" 2>&1 &&
    limited 30 ./fashion.cpu train --data images --resume --steps 30 --quiet --out "$work/mixed" > "$work/log" 2>&1; then
    row 'a checkpoint of the processor, and back' good
  else
    row 'a checkpoint of the processor, and back' "$(failed 1 "$work/log")"
  fi
}

# Time of a step between the first report of a run and its last, FLOPs of its products and memory of the device; with an option of `train` the time alone,
# and for how many products cublasLt made the gradient of a bias, too.
measure() { # name, data, option
  local name=$1 data=$2 what="step: $1${3:+, $3}" sums every=${smoke:+1} seconds=3 steps=${smoke:+3} took flops bytes code=0 limit=()
  case $name in gpt2*) every=${every:-5} seconds=8 ;; *) every=${every:-50} ;; esac
  time_for $((seconds + 5)) "$what" || return
  [ -n "$smoke" ] || limit=(--max-minutes "$(awk -v s=$seconds 'BEGIN { print s / 60 }')")
  train $name.gpu "$work/time" "$data" --steps ${steps:-1000000} --log-every $every "${limit[@]}" ${3:+"$3"} || code=$?
  if [ $code != 0 ]; then row "$what" "$(failed $code "$work/$name.gpu.log")"; return; fi
  took=$(sed -n '/"split":"train"/ s/.*"step":\([0-9]*\).*"time":\([0-9.]*\).*/\1 \2/p' "$work/time/metrics.jsonl" |
    awk 'NR == 1 { s = $1; t = $2 } { n = $1; u = $2 } END { if (n > s) printf "%.3f", 1e3 * (u - t) / (n - s) }')
  if [ -n "${3:-}" ]; then
    sums=$(sed -n 's/^device.epilogues=//p' "$work"/time/step-*/trainer.txt 2> "$work/log" | tail -n 1)
    row "$what" "${took:-no} ms, ${sums:-none} of its sums by cublasLt"
    rm -rf "$work/time"
    return
  fi
  limited 30 ./$name.gpu info > "$work/info" 2> "$work/log"
  flops=$(awk '$1 == "train" { for (i = 1; i < NF; i++) if ($(i + 1) == "flops") print $i }' "$work/info")
  bytes=$(awk "/^device's memory/ { on = 1 } on && /^  in all/ { print \$3; exit }" "$work/info")
  if [ -z "$took" ] || [ -z "$flops" ] || [ -z "$bytes" ]; then row "step: $name" 'FAILED: no figures'; return; fi
  awk -v ms="$took" -v flops="$flops" -v bytes="$bytes" 'BEGIN { printf "%s %.0f %.2f\n", ms, bytes / 1048576, (ms > 0 ? flops / ms / 1e9 : 0) }' > "$work/speed/$name.blu"
  row "step: $name" "$took ms"
  rm -rf "$work/time"
  if [ -n "$logs" ] && [ "$(left)" -gt 60 ]; then
    limited 20 ./$name.gpu train --data "$data" --out "$work/time" --eval-every 0 --save-every 0 --steps 5 --profile > "$work/$name.profile" 2>&1
    rm -rf "$work/time"
  fi
}
part_speed() {
  local name data peer
  while read -r name data _ peer _; do [ "$peer" = - ] || measure $name "$data"; done < models.txt
  while read -r name data _; do [ "$name" != gpt2_256 ] || measure $name "$data" --epilogues; done < models.txt
}
part_rest() {
  local name data peer
  while read -r name data _ peer _; do [ "$peer" != - ] || measure $name "$data"; done < models.txt
}

part_sanitizer() {
  local sanitizer tool model code
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null || true)
  for tool in memcheck racecheck initcheck synccheck; do
    if [ -z "$sanitizer" ]; then row "compute-sanitizer: $tool" 'SKIPPED: not installed'; continue; fi
    if [[ $gpu = *emulated* ]]; then row "compute-sanitizer: $tool" 'SKIPPED: the device is emulated'; continue; fi
    time_for 10 "compute-sanitizer: $tool" || continue
    code=0
    limited 25 "$sanitizer" --tool $tool --error-exitcode 9 ./softmax.gpu train --data images --steps 3 --quiet --eval-every 0 --out "$work/$tool" \
      > "$work/$tool.log" 2>&1 || code=$?
    if [ $code = 0 ]; then row "compute-sanitizer: $tool" good
    else row "compute-sanitizer: $tool" "FAILED: status $code, $(grep -m 1 -E 'Error|ERROR|error|hazard' "$work/$tool.log" | cut -c 1-100)"; fi
  done
}

# One process for each, so that what hangs or has no memory takes the others along in nothing.
part_torch() {
  local name peer device=cuda seconds=3 options=() kind ms allocated reserved parameters own
  export TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
  if [ -n "$smoke" ]; then device=cpu seconds=0.1 options=(--no-compile); fi
  if [ -z "$python" ] || ! limited 60 "$python" -c "import torch; assert '$device' == 'cpu' or torch.cuda.is_available()" 2> "$work/log"; then
    row PyTorch "SKIPPED: ${python:-no Python} has no PyTorch for this device"
    return
  fi
  row PyTorch "$(limited 60 "$python" -c 'import torch; print(torch.__version__, "with CUDA", torch.version.cuda)' 2> "$work/log")"
  while read -r name _ _ peer _; do
    [ "$peer" != - ] || continue
    time_for 15 "PyTorch: $name" || continue
    limited 75 "$python" peers.py "$peer" $seconds $device "${options[@]}" > "$work/$name.torch" 2> "$work/$name.torch.log" || true
    own=$(limited 30 ./$name.gpu info 2> "$work/log" | sed -n 's/^parameters .* \([0-9]*\) elements.*/\1/p')
    for kind in eager compiled; do
      [ -z "$smoke" ] || [ $kind = eager ] || continue
      ms='' && read -r ms allocated reserved parameters < <(sed -n "s/^$kind //p" "$work/$name.torch")
      if [ -z "$ms" ]; then row "PyTorch, $kind: $name" "SKIPPED: no time for it, or: $(tail -n 1 "$work/$name.torch.log" | cut -c 1-80)"
      elif [ "$ms" = failed: ]; then row "PyTorch, $kind: $name" "SKIPPED: $allocated $reserved $parameters"
      elif [ "$parameters" != "$own" ]; then row "PyTorch, $kind: $name" "FAILED: another model, $parameters parameters and not $own"
      else
        echo "$ms $allocated" > "$work/speed/$name.$kind"
        row "PyTorch, $kind: $name" "$ms ms, $allocated MiB, $reserved MiB reserved"
      fi
    done
  done < models.txt
}

for part in "${parts[@]}"; do "part_$part"; done
part=end
exit
