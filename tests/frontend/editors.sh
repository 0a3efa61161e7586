#!/bin/sh
# editors.sh BLUC: highlighting, man page and completion know every reserved word and every option of `bluc --help`.
bluc=$1 failed=0
cd "$(dirname "$0")/../../frontend" || exit 2
for word in $(sed -n 's/^"\([a-z]*\)" *{ return [A-Z]*; }$/\1/p' lexer.l); do
  for file in editors/vim/syntax/blu.vim editors/vscode/syntaxes/blu.tmLanguage.json; do
    grep -qw -- "$word" $file || { echo "FAIL $file lacks the reserved word $word"; failed=1; }
  done
done
{ "$bluc" --help; "$bluc" tokenize --help; } | grep -v '\./' | grep -o -- '--[a-z-]*' | sort -u | while read -r option; do
  for file in shell/bluc.1 shell/bluc.bash shell/_bluc; do
    sed 's/\\-/-/g' $file | grep -qF -- "$option" || echo "FAIL $file lacks the option $option"
  done
done | grep . && failed=1
for file in editors/vscode/*.json editors/vscode/syntaxes/*.json; do
  if command -v python3 > /dev/null && ! python3 -m json.tool $file > /dev/null; then echo "FAIL $file is no JSON"; failed=1; fi
done
bash -n shell/bluc.bash || failed=1
exit $failed
