#!/bin/sh
# text.sh ROOT: what holds for every source file of ours: no tabs, lines of at most 160 columns, at most 900 lines, no word that
# says that something is unfinished; and library code that never ends the process but where it is listed here.
root=$1 failed=0
cd "$root" || exit 2
complain() { echo "FAIL $1"; failed=1; }

sources=$(find frontend dialects passes codegen runtime tests -type f \( -name '*.c' -o -name '*.h' -o -name '*.cpp' \) | sort)
texts=$(find frontend dialects passes codegen runtime models docs tests cmake -type f \
  \( -name '*.[chyl]' -o -name '*.cpp' -o -name '*.sh' -o -name '*.awk' -o -name '*.md' -o -name '*.blu' -o -name '*.mlir' -o -name '*.td' \
     -o -name '*.cmake' -o -name 'CMakeLists.txt' \) ! -path "tests/style/*" | sort)
if [ -z "$sources" ]; then complain "no source files in $root"; fi

tab=$(printf '\t')
for file in $sources; do
  if grep -n "$tab" "$file"; then complain "$file: a tab"; fi
  # Columns are characters: bytes that continue one don't count. Lines that hold IR in a string are free.
  long=$(LC_ALL=C awk '/"[^"]*%[a-z0-9]/ { next } { gsub(/[\200-\277]/, "") } length > 160 { printf "%s ", NR }' "$file")
  if [ -n "$long" ]; then complain "$file: lines of more than 160 columns: $long"; fi
  lines=$(wc -l < "$file")
  if [ "$lines" -gt 900 ]; then complain "$file: $lines lines"; fi
done
for file in $texts; do
  if grep -nwE 'TODO|FIXME|XXX' "$file"; then complain "$file: unfinished"; fi
done

# Who may end the process, how often and why. Nobody may exit: only a main turns a state into an exit status.
most_ends() {
  case $1 in
    codegen/bluc.c) echo 2 ;;          # the driver: a pass, or code generation, left an invalid module
    dialects/build.c) echo 1 ;;        # the compiler itself builds an op that the rules refuse
    passes/plan.c) echo 1 ;;           # two live values share bytes
    frontend/lexer.l) echo 1 ;;        # flex is out of memory, and would exit
    runtime/data/files.c) echo 1 ;;    # more memory to hold than files: a bug of a data source
    runtime/commands.c) echo 2 ;;      # a signal handler: a mapped file became shorter, and its reader has no way back
    dialects/memory.c | frontend/arena.c | runtime/text.c) echo 1 ;; # out of memory: the one place of the folder
    *) echo 0 ;;
  esac
}
for file in $(find frontend dialects passes codegen runtime -type f \( -name "*.c" -o -name "*.h" -o -name "*.cpp" -o -name "*.y" -o -name "*.l" \) | sort); do
  ends=$(grep -cE "(^|[^a-zA-Z_])(_exit|_Exit|exit|abort|quick_exit)[[:space:]]*\\(" "$file")
  if [ "$ends" -gt "$(most_ends "$file")" ]; then
    grep -nE "(^|[^a-zA-Z_])(_exit|_Exit|exit|abort|quick_exit)[[:space:]]*\\(" "$file"
    complain "$file ends the process"
  fi
done
exit $failed
