#!/usr/bin/env bash
# run.sh [FOLDER]: checks trainers for a GPU on a GPU, in the folder that pack.sh made (the one where this script lies), in under five minutes. Its
# table comes last. It needs no Blu, only NVIDIA's driver and cublasLt (LD_LIBRARY_PATH may name its folder); compute-sanitizer and PyTorch are used
# if they are there. Exit status 0: all good or skipped; 1: something is wrong.
set -uo pipefail
cd "${1:-$(dirname "$0")}" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
table=$work/table bad=0 start=$SECONDS most=270

row() { # what, result
  printf '%-44s %s\n' "$1" "$2" | tee -a "$table"
  case $2 in FAILED*) bad=1 ;; esac
}
finish() {
  printf '\n%-44s %s\n' check result
  cat "$table"
  exit $bad
}
late() { [ $((SECONDS - start)) -gt $most ]; }

gpu=$(./softmax.gpu info | grep '^device ' || true)
case $gpu in
  '' | 'device      none'*) row 'trainers on a GPU' "SKIPPED: ${gpu:-no answer}"; finish ;;
esac
row "$(./softmax.gpu info | sed -n 's/^images  */images: /p')" "${gpu#device      }"
if [[ $gpu = *emulated* ]]; then row 'times below' 'mean nothing: the device is emulated'; fi

column() { sed -n '/"split":"train"/ s/.*"'"$1"'":\([^,}]*\)[,}].*/\1/p' "$2/metrics.jsonl"; } # metric, run
# Numbers of two files, line by line: the largest difference by the larger of size and 1, or "other": other lines, or one that is no number.
apart() { paste -d ' ' "$1" "$2" | awk '{ n = NF / 2; if (n != int(n) || !n) bad = 1
  for (i = 1; i <= n; i++) { d = $i - $(i + n); if (d < 0) d = -d; s = $i < 0 ? -$i : $i; if (s < 1) s = 1; if (!(d >= 0) || $i !~ /^[-+0-9.e]+$/) bad = 1; else if (d / s > most) most = d / s } }
  END { if (bad || !NR) print "other"; else printf "%.1e", most }'; }
under() { awk -v x="$1" -v most="$2" 'BEGIN { exit !(x != "other" && x + 0 <= most) }'; }

# --- ops: an entry each, the processor beside it ---
while read -r entry; do
  if late; then row "op: $entry" 'SKIPPED: out of time'; continue; fi
  if ./ops.cpu predict --entry $entry x.csv --output "$work/a.csv" && ./ops.gpu predict --entry $entry x.csv --output "$work/b.csv"; then
    difference=$(apart <(tr , ' ' < "$work/a.csv") <(tr , ' ' < "$work/b.csv"))
    if under "$difference" 1e-4; then row "op: $entry" "good, apart by $difference"; else row "op: $entry" "FAILED: apart by $difference"; fi
  else
    row "op: $entry" 'FAILED to run'
  fi
done < ops.txt

# --- ten losses of each model, the processor beside it; then time of a step ---
while read -r model data; do
  case $model in ''|'#'*) continue ;; esac
  if late; then row "model: $model" 'SKIPPED: out of time'; continue; fi
  for kind in cpu gpu; do ./$model.$kind train --data $data --steps 10 --log-every 1 --eval-every 0 --quiet --out "$work/$model.$kind" || true; done
  difference=$(apart <(column loss "$work/$model.cpu") <(column loss "$work/$model.gpu"))
  if [ "$(column loss "$work/$model.gpu" | wc -l)" != 10 ]; then difference=other; fi
  if under "$difference" 1e-4; then row "ten losses: $model" "good, apart by $difference"; else row "ten losses: $model" "FAILED: apart by $difference"; fi
  # the second half of 400 steps: start and first steps don't count
  ./$model.gpu train --data $data --steps 400 --log-every 200 --eval-every 0 --quiet --max-minutes 0.2 --out "$work/$model.time" || true
  time=$(sed -n '/"split":"train"/ s/.*"step":\([0-9]*\).*"time":\([0-9.]*\).*/\1 \2/p' "$work/$model.time/metrics.jsonl" |
    awk '{ if (NR > 1) printf "%.3f ms", 1e3 * ($2 - t) / ($1 - s); s = $1; t = $2 }')
  row "step: $model" "${time:-FAILED: no time}"
done < models.txt

# --- the same bits twice; a checkpoint taken up ---
./fashion.gpu train --data images --steps 10 --quiet --eval-every 0 --out "$work/again" || true
if cmp -s "$work/fashion.gpu/step-10/model.safetensors" "$work/again/step-10/model.safetensors"; then row 'the same bits twice: fashion' good; else row 'the same bits twice: fashion' FAILED; fi
cp -r "$work/fashion.cpu" "$work/mixed"
if ./fashion.gpu train --data images --resume --steps 20 --quiet --out "$work/mixed" && ./fashion.cpu train --data images --resume --steps 30 --quiet --out "$work/mixed"; then
  row 'a checkpoint of the processor, and back' good
else
  row 'a checkpoint of the processor, and back' FAILED
fi

# --- NVIDIA's own checks ---
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null || true)
for tool in memcheck racecheck initcheck synccheck; do
  if [ -z "$sanitizer" ]; then row "compute-sanitizer: $tool" 'SKIPPED: not installed'; continue; fi
  if late; then row "compute-sanitizer: $tool" 'SKIPPED: out of time'; continue; fi
  if timeout 60 "$sanitizer" --tool $tool --error-exitcode 9 ./softmax.gpu train --data images --steps 3 --quiet --eval-every 0 --out "$work/$tool" > "$work/log" 2>&1; then
    row "compute-sanitizer: $tool" good
  else
    row "compute-sanitizer: $tool" "FAILED: $(grep -m 1 -E 'Error|ERROR|error' "$work/log" | cut -c 1-80)"
  fi
done

# --- PyTorch beside it: a perceptron and a transformer of the benchmarks, on this GPU ---
python=$(command -v python3 || true)
if [ -n "$python" ] && "$python" -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null; then
  if late; then row 'PyTorch: step of fashion' 'SKIPPED: out of time'; else
    row 'PyTorch: step of fashion' "$("$python" - << 'END'
import time, torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
images, labels = torch.randn(100, 100, 784).cuda(), torch.randint(0, 10, (100, 100)).cuda()
def step(i):
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(images[i % 100]), labels[i % 100]).backward()
    optimizer.step()
for i in range(200): step(i)
torch.cuda.synchronize()
start = time.perf_counter()
for i in range(200): step(i)
torch.cuda.synchronize()
print("%.3f ms, data on the device, no graph, loss not read" % (1e3 * (time.perf_counter() - start) / 200))
END
)"
  fi
else
  row 'PyTorch: step of fashion' 'SKIPPED: no PyTorch with CUDA here'
fi
finish
