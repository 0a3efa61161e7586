#!/bin/sh
# tools.sh BLUC: `bluc check`, `bluc fmt`, --diagnostics=json, --holes, colours, --explain.
bluc=$1 failed=0
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
unset NO_COLOR

# expect STATUS TEXT NAME ARGUMENTS: exit status, and a text (if not empty) on stdout or stderr
expect() {
  want=$1 text=$2 name=$3
  shift 3
  "$bluc" "$@" > out 2>&1
  status=$?
  if [ $status -ne "$want" ]; then echo "FAIL $name: exit status $status, expected $want"; head -5 out; failed=1; fi
  if [ -n "$text" ] && ! grep -qF -- "$text" out; then echo "FAIL $name: no '$text' in"; head -5 out; failed=1; fi
}
fail() { echo "FAIL $1"; failed=1; }

cat > good.blu << 'END'
fn double(x: float[_]) -> float[_] { x * 2 }
entry e(x: f32[4]) -> f32[4] { double(x) }
END
cat > bad.blu << 'END'
const N = 4;
entry e(x: f32[N]) -> f32[N] { y + "a\"b" }
END
printf 'const  N=4 ; // four\nentry e(x:f32[N])->f32[N]{-x+N}\n' > ugly.blu
printf 'const N = 4;  // four\nentry e(x: f32[N]) -> f32[N] { -x + N }\n' > pretty.blu

expect 0 "" "check of a good program" check good.blu
[ -s out ] && fail "check of a good program says something"
[ "$(ls)" = "$(printf 'bad.blu\ngood.blu\nout\npretty.blu\nugly.blu')" ] || fail "check made a file"
expect 1 "bad.blu:2:32: error[E0201]" "check of a bad program" check bad.blu
expect 0 "good.blu:1:20: note[N0701]: \`_\` is 4" "holes" check --holes good.blu

expect 1 '{"severity":"error","code":"E0201","message":"`y` is not defined here","file":"bad.blu","line":2,"column":32,"end_line":2,"end_column":33,"notes":[]}' \
  "an error as JSON" check --diagnostics=json bad.blu
expect 1 '"code":"E0101"' "a missing file as JSON" check --diagnostics json none.blu
expect 2 "text or json" "another form" check --diagnostics=xml bad.blu
TERM=xterm expect 1 "" "a pipe" check bad.blu
grep -q "$(printf '\033')" out && fail "colours in a pipe"

expect 1 "ugly.blu: not in canonical layout" "fmt --check" fmt --check pretty.blu ugly.blu
expect 0 "" "fmt --check of a canonical file" fmt --check pretty.blu
cp ugly.blu real.blu && chmod 755 real.blu && ln -s real.blu link.blu
expect 0 "" "fmt" fmt ugly.blu pretty.blu link.blu
[ -L link.blu ] && [ -x real.blu ] && cmp -s real.blu pretty.blu || fail "fmt through a link: link, mode or text lost"
cmp ugly.blu pretty.blu || fail "fmt made another text than expected"
"$bluc" fmt - < bad.blu > out || fail "fmt of standard input"
cmp -s out bad.blu || fail "fmt of standard input"
printf 'const a = ;\n' > broken.blu
expect 1 "E0107" "fmt of a file with a syntax error" fmt broken.blu
[ "$(cat broken.blu)" = 'const a = ;' ] || fail "fmt changed a file that it can't read"
expect 2 "which files" "fmt of nothing" fmt
expect 1 "E0101" "fmt of a missing file" fmt none.blu

expect 0 "element type" "--explain" --explain E0302
expect 2 "no error has the code" "--explain of no code" --explain E9999
expect 2 "did you mean '--emit'?" "a misspelt option" --emti=blu good.blu
expect 2 "did you mean 'plan'?" "a misspelt stage" --emit=plna good.blu
expect 2 "did you mean 'fuse'?" "a misspelt pass" --dump-after=fuze good.blu
expect 2 "unknown option '--what'" "an unknown option" --what good.blu
expect 0 "bluc check" "--help" --help
exit $failed
