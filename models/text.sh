#!/usr/bin/env bash
# text.sh - trains models/gpt_char.blu on a text and lets it go on with its first words: by default the King James Bible, of Debian's package
# bible-kjv. With a tokenizer it does the same by models/gpt2.blu, small, on tokens in the place of bytes. It needs a built compiler (demo.sh).
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat << 'EOF_USAGE'
usage: models/text.sh [--steps N] [--out DIR] [--tokenizer FILE] [--bluc FILE] [TEXT]

Trains a small GPT on a text file, the last tenth of which tests it, and samples from it. Without TEXT the King James Bible is taken,
which Debian's package bible-kjv prints.

  --steps N          steps of training (default 1500)
  --out DIR          folder of everything that is made (default build/text)
  --tokenizer FILE   train on the tokens of a tokenizer.json, or of vocab.bpe beside encoder.json, not on bytes
  --bluc FILE        the compiler (default build/bin/bluc)

exit status: 0 good, 1 something failed, 2 usage
EOF_USAGE
}

fail() {
  echo "error: $*" >&2
  exit 1
}

# One line for a length of text; the last tenth, from a line on, is for tests.
split_text() { # text, folder
  local lines
  lines=$(wc -l < "$1")
  [ "$lines" -ge 20 ] || fail "$1 has only $lines lines"
  mkdir -p "$2"
  head -n $((lines - lines / 10)) "$1" > "$2/train.txt"
  tail -n $((lines / 10)) "$1" > "$2/test.txt"
}

steps=1500 out=$top/build/text tokenizer='' bluc=$top/build/bin/bluc text=''
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --steps | --out | --tokenizer | --bluc)
      [ $# -gt 1 ] || { usage >&2; exit 2; }
      case $1 in --steps) steps=$2 ;; --out) out=$2 ;; --tokenizer) tokenizer=$2 ;; --bluc) bluc=$2 ;; esac
      shift ;;
    -*) usage >&2; exit 2 ;;
    *) [ -z "$text" ] || { usage >&2; exit 2; }; text=$1 ;;
  esac
  shift
done
[ -x "$bluc" ] || fail "$bluc is not there: models/demo.sh or cmake builds it"
mkdir -p "$out"
if [ -z "$text" ]; then
  command -v bible > /dev/null || fail 'no TEXT is given, and the package bible-kjv, which holds one, is not installed'
  text=$out/kjv.txt
  bible -f Gen1:1-Rev22:21 | sed 's/^[^ ]* //' > "$text" # verses without their places
fi
[ -r "$text" ] || fail "$text can't be read"

if [ -n "$tokenizer" ]; then
  "$bluc" tokenize --tokenizer "$tokenizer" --output "$out/tokens/text_" --validation 0.1 --overwrite "$text" > "$out/said"
  vocabulary=$(sed -n 's/^vocabulary: \([0-9]*\) ids$/\1/p' "$out/said")
  "$bluc" -D "V=$vocabulary" -D S=128 -D L=4 -D H=4 -D D=128 -D B=12 "$top/models/gpt2.blu" -o "$out/gpt"
  "$out/gpt" train --data "$out/tokens" --out "$out/run" --steps "$steps" --set lr=1e-3 --set warmup=100 --set "steps=$steps"
else
  split_text "$text" "$out/bytes"
  "$bluc" -D S=128 "$top/models/gpt_char.blu" -o "$out/gpt"
  "$out/gpt" train --data "$out/bytes" --out "$out/run" --steps "$steps" --set "steps=$steps"
fi
prompt=$(head -c 24 "$text" | head -n 1)
sample=("$out/gpt" sample --out "$out/run" ${tokenizer:+--tokenizer "$tokenizer"} --prompt "$prompt" --tokens 100 --temperature 0.8)
printf '\n%s\n\n' "${sample[*]@Q}"
"${sample[@]}"
