# readme.sh - what README.md says is so: its model compiles, its commands run, its IR is what bluc prints, its links lead somewhere.
. "$(dirname "$0")/common.sh"
readme=$top/README.md

# The lines of the fences of a language.
fences() { sed -n '/^```'"$1"'$/,/^```$/ { /^```/!p }' "$readme"; }

mkdir -p build/bin
ln -s "$bluc" build/bin/bluc
cp -r "$top/models" models
ln -s "$top/tests" tests

# --- the first model: its first line is a comment that names its file ---
fences blu > model
file=$(sed -n '1 s|^// \([a-z]*\.blu\).*|\1|p' model)
[ -n "$file" ] || fail 'the first line of the model does not name its file'
holds 'lines of the first model' "$(grep -c . model)" 'x <= 15'
cp model "$file"

# --- the commands, in their order; the two that build everything must be there and are run elsewhere ---
fences sh > commands
for script in models/demo.sh tests/run.sh; do
  grep -q "^\./$script\( \|\$\)" commands || fail "README.md does not show ./$script"
done
ran=0
while read -r line; do
  case $line in
    '' | \#*) ;;
    ./models/*.sh* | ./tests/*.sh*) [ -x "${line%% *}" ] || fail "$line: no such script" ;;
    *)
      run 0 bash -c "$line"
      ran=$((ran + 1))
      ;;
  esac
done < commands
holds 'commands of README.md' $ran 'x >= 5'

# --- the text: the loss and the sample that it shows are what comes, and the same bits come on every machine ---
said=$(sed -n 's/.*its test loss is \([0-9.]*\) per byte.*/\1/p' "$readme")
holds 'the test loss that README.md states' "$said" 'x > 1 && x < 3'
holds "the test loss, said to be $said" "$(last_test loss gru.run)" "x >= $said - 0.005 && x <= $said + 0.005"
run 0 ./gru sample --prompt 'This License ' --tokens 100 --temperature 0.5 --quiet
holds 'bytes of the sample' "$(wc -c < out)" 'x > 100'
same 'the sample that README.md shows' "$(grep '^This License ' "$readme")" "$(cat out)"

# --- the IR: every line stands in what bluc prints, in this order. Comments are left out, `...` stands for anything, and the numbers
# of values don't count: they change with every operation that is added. ---
run 0 "$bluc" --emit=opt "$file"
sed 's/%[a-z0-9#]*/%/g' out > printed
fences mlir | sed 's| *//.*||; s/^ *//; s/%[a-z0-9#]*/%/g' | grep -v '^\(\.\.\.\)*$' > excerpt
holds 'lines of IR' "$(wc -l < excerpt)" 'x >= 8'
awk '
  NR == FNR { printed[NR] = $0; lines = NR; next }
  {
    parts = split($0, part, /\.\.\./)
    for (at++; at <= lines; at++) {
      rest = printed[at]
      for (i = 1; i <= parts && index(rest, part[i]); i++) rest = substr(rest, index(rest, part[i]) + length(part[i]))
      if (i > parts) next
    }
    print "not printed, or not in this place: " $0
    exit 1
  }' printed excerpt || fail "bluc --emit=opt $file"

# --- links and folders ---
grep -oE '\]\([^)#]+' "$readme" | sed 's/^](//' | grep -v '^http' | sort -u > links
while read -r link; do
  [ -e "$top/$link" ] || fail "README.md links to $link, which is not there"
done < links
[ -s links ] || fail 'README.md has no links'
finish
