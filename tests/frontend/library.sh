#!/bin/sh
# library.sh [--update]: docs/library.md is what frontend/library.awk makes of the library's comments, and every module,
# optimizer and function of the library has one.
cd "$(dirname "$0")/../.." || exit 2
failed=0
if [ "$1" = --update ]; then awk -f frontend/library.awk frontend/std/*.blu > docs/library.md; fi
awk -f frontend/library.awk frontend/std/*.blu | diff -u docs/library.md - || failed=1
awk '/^(module|fn|optimizer) / && last !~ /^\/\/ / { print "FAIL " FILENAME ":" FNR ": no comment above this: " $0; bad = 1 }
  { last = $0 }
  END { exit bad }' frontend/std/*.blu || failed=1
exit $failed
