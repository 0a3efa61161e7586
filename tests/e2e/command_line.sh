# command_line.sh - bluc's own command line: every option, every stage, and every way to be wrong about them.
. "$(dirname "$0")/common.sh"
softmax=$top/models/softmax.blu

# --- what it tells about itself ---
run 0 "$bluc" --version
says '^bluc [0-9]+\.[0-9]+\.[0-9]+$'
run 0 "$bluc" --help
same 'errors of --help' "$(cat err)" ''
says '^usage: bluc '
for option in -o -D --cpu --emit --dump-after --verify-each --locations --time --explain --version --help; do
  says "(^| )$option\b"
done
stages=$(sed -n '/--emit=/,/--dump-after/ s/^      \([a-z]*\) .*/\1/p' out)
passes=$(sed -n '/--dump-after/,/--verify-each/ s/^      \([a-z]*\) .*/\1/p' out)
same 'number of stages and passes in --help' "$(wc -w <<< "$stages") $(($(wc -w <<< "$passes") >= 7))" '11 1'
run 0 "$bluc" --explain E0201
says 'not defined'

# --- wrong usage: one line, exit status 2 ---
usage_error() { # pattern, arguments
  local pattern=$1
  shift
  run 2 "$bluc" "$@"
  one_line "^bluc: $pattern"
}
usage_error 'which model\?'
usage_error "unknown option '--bogus'" --bogus "$softmax"
usage_error "unknown option '-x'" -x "$softmax"
usage_error "no stage is called 'foo'" --emit=foo "$softmax"
usage_error 'no stage is called' --emit
usage_error "no pass is called 'foo'" --dump-after=foo "$softmax"
usage_error "--cpu takes .*'v9'" --cpu=v9 "$softmax"
usage_error "-D takes NAME=VALUE, not 'B'" -D B "$softmax"
usage_error "-o takes a file name" "$softmax" -o
usage_error "-o takes a file name" "$softmax" -o ''
usage_error "no error has the code 'E9999'" --explain E9999
usage_error "one model at a time" "$softmax" "$softmax"

# --- a wrong program, a wrong place: exit status 1, nothing is left behind ---
run 1 "$bluc" missing.blu
one_line '^missing.blu: error.*: No such file or directory'
absent missing
run 1 "$bluc" "$work"
complains 'Is a directory'
printf 'let x = ;\n' > wrong.blu
run 1 "$bluc" wrong.blu
complains '^wrong.blu:1:[0-9]+: error'
absent wrong
# a data source that no trainer has: known when compiled
printf 'import optim;\nmodule M() { param w: float = 0.0; fn (x: float[b]) -> float[b] { w - x } }\nlet m = M();\n' > source.blu
printf 'train (x: float[4]) from nyp(dir = "d") { loss = m(x); optimizer = optim.sgd(0.1); epochs = 1; }\n' >> source.blu
for arguments in 'check source.blu' 'source.blu'; do
  run 1 "$bluc" $arguments
  complains "^source.blu:4:1: error.*no data source .nyp., did you mean .npy."
done
absent source
rm source.blu
run 1 "$bluc" -D NOPE=1 "$softmax"
one_line 'no .const NOPE'
absent softmax
mkdir folder
for target in /nonexistent/folder/x wrong.blu/x folder; do
  for stage in program obj asm llvm plan kernels blu ast; do
    run 1 "$bluc" --emit=$stage "$softmax" -o "$target"
    one_line "^bluc: $target: "
  done
done
same 'the folder' "$(ls -A folder)" ''
same 'wrong.blu' "$(cat wrong.blu)" 'let x = ;'
for stage in llvm plan ast; do
  "$bluc" --emit=$stage "$softmax" > /dev/full 2> err && fail "--emit=$stage to a full disk gave exit status 0"
  : > out
  one_line 'No space left'
done
# a full disk, and a limit on the size of files
if unshare --mount true 2> err; then
  mkdir small
  full_disk() { unshare --mount sh -c 'mount -t tmpfs -o size=64k none small && { "$@"; s=$?; ls -A small; exit $s; }' sh "$@"; }
  run 1 full_disk "$bluc" "$softmax" -o small/x
  one_line '^bluc: small/x: .*No space left on device'
  rmdir small
else
  echo 'this user may not mount: the check with a full disk was left out'
fi
(ulimit -f 16 && exec "$bluc" "$softmax" -o limited) > out 2> err
same 'exit status when a file may not grow' $? 1
one_line '^bluc: limited: '
absent limited
compile "$softmax" -o kept
sum=$(sha256sum < kept)
run 1 "$bluc" wrong.blu -o kept
same 'an older trainer after an error' "$(sha256sum < kept)" "$sum"
same 'files that are left' "$(ls -A)" "$(printf '%s\n' err folder kept out wrong.blu)"

# --- the stages ---
shows() { # stage, pattern: what is printed and what is written are the same, and hold this
  run 0 "$bluc" --emit="$1" "$softmax"
  same "errors of --emit=$1" "$(cat err)" ''
  says "$2"
  cp out printed
  compile --emit="$1" "$softmax" -o written
  cmp printed written || fail "--emit=$1 -o writes another text than it prints"
}
shows ast '^\(file'
shows blu 'func.func @update\('
shows grad 'blu.matmul .*ta = true'
shows opt 'blu.guard '
shows kernels 'blu.kernel'
shows plan '^arena: [0-9]+ bytes'
shows llvm '^define '
shows asm '^[[:space:]]+\.text'
compile --emit=obj "$softmax"
same 'the object file' "$(head -c 4 softmax.o | tail -c 3)" ELF
compile --emit program "$softmax"
[ -x softmax ] || fail 'the default name of the trainer is not softmax'
for stage in $stages; do
  target=--target=cpu
  if [ "$stage" = ptx ]; then target=--target=cuda; fi
  run 0 "$bluc" $target --emit="$stage" "$softmax" -o any
done

# --- the other options ---
for pass in $passes; do
  run 0 "$bluc" --dump-after="$pass" "$softmax" -o any
  complains "^// after $pass$"
  complains '^module '
done
run 0 "$bluc" --verify-each "$softmax" -o verified
cmp verified softmax || fail '--verify-each changes the trainer'
run 0 "$bluc" --emit=opt --locations "$softmax"
says 'softmax.blu"?:[0-9]+:[0-9]+'
run 0 "$bluc" --time "$softmax" -o any
complains '^ +[0-9.]+ ms  link$'
complains '^ +[0-9.]+ ms  in all$'
run 0 "$bluc" -DB=32 "$softmax" -o any
run 0 "$bluc" --emit=blu -D B=32 "$softmax"
says 'tensor<32x28x28xui8>'
finish
