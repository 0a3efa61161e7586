# common.sh - what the e2e tests share: NAME.sh BLUC CHECKOUT FOLDER. A failed check is printed and counted, and the script goes on; its
# last line is `finish`, which exits 1 if a check failed.
set -uo pipefail
bluc=$1 top=$2 work=$3
here=$top/tests/e2e
data=/usr/share/datasets/fashion-mnist
failures=0
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

finish() {
  if [ $failures -gt 0 ]; then exit 1; fi
  rm -rf "$work" # nothing to look at
  echo 'all checks passed'
  exit 0
}

# run CODE COMMAND...: the exit status must be CODE; standard output goes to the file `out`, errors to `err`.
run() {
  local code=$1 got=0
  shift
  "$@" > out 2> err < /dev/null || got=$?
  [ $got = "$code" ] && return
  fail "'$*' gave exit status $got, not $code:"
  head -n 8 out err
}

# A line of standard output (of standard error) matches this extended regular expression.
says() { grep -qE -e "$1" out || { fail "no line of the output matches '$1':"; head -n 8 out; }; }
complains() { grep -qE -e "$1" err || { fail "no line of the errors matches '$1':"; head -n 8 err; }; }

# The command before failed with one line, which says this, and printed nothing else.
one_line() {
  complains "$1"
  [ "$(wc -l < err)" = 1 ] || { fail "not one line of errors:"; head -n 8 err; }
  [ ! -s out ] || { fail "output beside the error:"; head -n 8 out; }
}

absent() { for f; do if [ -e "$f" ] || [ -L "$f" ]; then fail "$f was left behind: $(ls -ld "$f")"; fi; done; }
same() { [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"; }
different() { [ "$2" != "$3" ] || fail "$1: both are '$2'"; }

# Holds for a finite number `value` if the awk condition about `x` holds; an empty value, nan and inf never do.
holds() { # what, value, condition
  printf '%s\n' "$2" | grep -qE '^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$' && awk -v x="$2" "BEGIN { exit !($3) }" || fail "$1: '$2' is not $3"
}

compile() {
  run 0 "$bluc" "$@"
  if [ -s out ] || [ -s err ]; then fail "bluc $* said something:"; head -n 8 out err; fi
}

hash_of() { cat "$1/model.safetensors" "$1/state.safetensors" | sha256sum | cut -d ' ' -f 1; } # checkpoint
timeless() { sed 's/,"time":[0-9.]*//' "$1/metrics.jsonl"; }                                    # run folder
# The last value of a metric on the test images.
last_test() { # metric, run folder
  sed -n '/"split":"test"/ s/.*"'"$1"'":\([^,}]*\)[,}].*/\1/p' "$2/metrics.jsonl" | tail -n 1
}
