#!/bin/sh
# robust.sh BLU_FRONT: what is no program, and what is a large one, ends in a diagnostic or in success within seconds,
# and never in a signal. Also --emit=ast, the command line, and errors that later stages report.
front=$1 failed=0
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2

# expect STATUS TEXT NAME ARGUMENTS: exit status, and a text (if not empty) on stdout or stderr
expect() {
  want=$1 text=$2 name=$3
  shift 3
  timeout 20 "$front" "$@" > out 2>&1
  status=$?
  if [ $status -ne "$want" ]; then echo "FAIL $name: exit status $status, expected $want"; head -5 out; failed=1; fi
  if [ -n "$text" ] && ! grep -qF -- "$text" out; then echo "FAIL $name: no '$text' in"; head -5 out; failed=1; fi
}
repeat() { # TEXT TIMES
  awk -v text="$1" -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", text }'
}

: > empty.blu
expect 0 "module attributes" "empty file" empty.blu
expect 0 "(file)" "tree of an empty file" --emit=ast empty.blu
expect 1 "E0101" "missing file" no/such.blu
expect 1 "E0101" "a folder" "$dir"
expect 2 "usage" "no file"
expect 2 "usage" "unknown option" --what empty.blu

head -c 65536 /dev/urandom > noise.blu
expect 1 "E0102" "binary garbage" noise.blu
printf 'const A = 1;\0const B = 2;' > nul.blu
expect 1 "E0102" "a NUL" nul.blu
printf '// \355\240\200 a surrogate\n' > surrogate.blu
expect 1 "E0102" "a surrogate in UTF-8" surrogate.blu
printf '// \300\257 not the shortest form\n' > overlong.blu
expect 1 "E0102" "overlong UTF-8" overlong.blu
printf '\r\nconst A = 1;\r\nconst B = nothing;\r\n' > crlf.blu
expect 1 "crlf.blu:3:11: error[E0201]" "lines that end in CR LF" crlf.blu
printf 'const A = (1' > cut.blu
expect 1 "unexpected the end of the file" "text that ends early" cut.blu
printf 'const A = "abc' > cut2.blu
expect 1 "E0105" "a string that ends early" cut2.blu

for open in '(' '[' '{ ' 'f(' '-' 'not ' '2 ^ ' '1 + ' 'if true { } else '; do
  { printf 'fn f(x) { let y = '; repeat "$open" 300; printf '1'; } > deep.blu
  expect 1 "error" "300 times '$open'" deep.blu
  expect 1 "error" "tree of 300 times '$open'" --emit=ast deep.blu
  { printf 'fn f(x) { let y = '; repeat "$open" 30000; printf '1'; } > deep.blu
  expect 1 "error" "30000 times '$open'" deep.blu
done
{ printf 'fn f(x) { '; repeat 'for i in 0..1 { ' 300; repeat '} ' 300; printf '}\n'; } > deep.blu
expect 1 "E0106" "300 loops inside each other" deep.blu
{ printf 'const a = '; repeat '(' 250; printf 1; repeat ')' 250; printf ';'; } > deep.blu
expect 0 "" "250 brackets" deep.blu
{ printf 'const a = 1'; repeat ' + 1' 250; printf ';'; } > deep.blu
expect 0 "" "250 sums" deep.blu

awk 'BEGIN { for (i = 0; i < 40000; i++) printf "const name_%d = %d + 1;\n", i, i }' > large.blu
expect 0 "" "a file of 1 MB" large.blu
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "const name_%d = name_x%d;\n", i, i }' > large.blu
expect 1 "more" "40000 errors" large.blu
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "const name_%d = name_x%d;\n", i, i }' > large.blu
expect 1 "more" "100000 unknown names" large.blu
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "const const = %d;\n", i }' > large.blu
expect 1 "more" "100000 syntax errors" large.blu
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "const n%d = 1 / 0;\n", i }' > large.blu
expect 1 "E0311" "100000 divisions by zero" large.blu
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "const n%d = \"\\q\";\n", i }' > large.blu
expect 1 "E0105" "100000 bad strings" large.blu
awk 'BEGIN { for (i = 0; i < 350000; i++) printf "const name_%d = %d + 1;  // x\n", i, i }' > large.blu
expect 0 "" "a file of 10 MB" large.blu
expect 3 "" "layout of a file of 10 MB" --format large.blu
{ printf 'const a = "'; repeat 'x' 1000000; printf '";\n'; } > large.blu
expect 0 "" "a string of 1 MB" large.blu
printf 'fn f0(x) { x }\n' > wide.blu
awk 'BEGIN { for (i = 1; i < 60; i++) printf "fn f%d(x) { f%d(x) + f%d(x) }\n", i, i - 1, i - 1 }' >> wide.blu
printf 'let a = f59(1);\n' >> wide.blu
expect 1 "E0502" "2^59 calls" wide.blu
printf 'fn f0(x) { x }\n' > chain.blu
awk 'BEGIN { for (i = 1; i < 190; i++) printf "fn f%d(x) { f%d(x) }\n", i, i - 1 }' >> chain.blu
printf 'let a = f189(1);\n' >> chain.blu
expect 0 "" "190 calls inside each other" chain.blu

cat > op.blu << 'END'
import nn;
let fc = nn.Linear(2, 3);
entry e(x: f32[4, 2]) -> f32[4, 3] { relu(fc(x)) }
END
expect 1 "op.blu:3:38: error[E0503]: this operation is refused" "an error of a later stage" --fail-at=blu.relu op.blu
expect 1 "op.blu:3:43: error[E0503]" "an error of a later stage, in the library" --fail-at=blu.matmul op.blu
expect 1 "note: the operation is here in the library" "its place in the library" --fail-at=blu.matmul op.blu

exit $failed
