#!/bin/sh
# ast.sh BLU_FRONT [--update]: the syntax tree of ast/everything.blu, which holds every construct of the grammar, is the
# expected one.
front=$1
cd "$(dirname "$0")" || exit 2
if [ "$2" = --update ]; then "$front" --emit=ast ast/everything.blu > ast/everything.txt; fi
"$front" --emit=ast ast/everything.blu | diff -u ast/everything.txt -
