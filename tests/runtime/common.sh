# common.sh - what the scripts here share: NAME.sh BIN SCRATCH. Every check prints what it wanted and got; a script goes on
# after a failure, and its last line, `finish`, exits 1 if there was one.
set -u
bin=$1
work=$2
rm -rf "$work"
mkdir -p "$work"
cd "$work" || exit 1
failures=0
fake=$bin/fake

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

finish() {
  if [ $failures -gt 0 ]; then exit 1; fi
  echo 'all checks passed'
  exit 0
}

# expect CODE PATTERN COMMAND...: exit code and a basic regular expression that one line of the output must match.
expect() {
  code=$1
  pattern=$2
  shift 2
  "$@" > output 2>&1
  got=$?
  if [ $got -ne "$code" ]; then fail "'$*' gave exit code $got, not $code:"; cat output; fi
  if ! grep -q -e "$pattern" output; then fail "'$*': no line matches '$pattern' in:"; cat output; fi
}

# silent COMMAND...: exit code 0 and no output.
silent() {
  "$@" > output 2>&1 || fail "'$*' failed: $(cat output)"
  [ ! -s output ] || fail "'$*' is not silent: $(cat output)"
}

# says PATTERN: one line of the output of the last command matches it too.
says() { grep -q -e "$1" output || { fail "no line matches '$1' in:"; cat output; }; }

hash_of() { sha256sum < "$1/model.safetensors"; }
timeless() { sed 's/,"time":[0-9.]*//' "$1/metrics.jsonl"; }
same() { [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"; }
