#!/bin/sh
# self.sh: the other scripts of this folder can fail: each is run on a small tree of its own, clean first and then with one violation
# planted.
here=$(cd "$(dirname "$0")" && pwd) failed=0 n=0
root=$(mktemp -d) || exit 2
trap 'rm -rf "$root"' EXIT

fresh() {
  rm -rf "${root:?}"/*
  mkdir -p "$root"/frontend "$root"/dialects "$root"/passes "$root"/codegen "$root"/runtime/data "$root"/models "$root"/docs "$root"/tests "$root"/cmake
  cd "$root" || exit 2
  echo '#include "ast.h"' > frontend/elab.c
  printf '#include <stdio.h>\n#include "dialects/blu.h"\n' > frontend/ast.h
  touch frontend/frontend.h dialects/blu.h dialects/dialects_internal.h passes/passes.h passes/kernel.h passes/passes_internal.h codegen/codegen.h
  touch runtime/abi.h runtime/data_internal.h
  printf '#include "dialects_internal.h"\n#include "mlir-c/IR.h"\n' > dialects/build.c
  printf '#include "passes/kernel.h"\n#include "passes_internal.h"\n#include "dialects/blu.h"\n' > passes/fuse.c
  printf '#include "codegen/codegen.h"\n#include "passes/passes.h"\n#include "runtime/abi.h"\n' > codegen/program.c
  printf '#include "frontend/frontend.h"\n' > codegen/bluc.c
  printf '#include "../data_internal.h"\n#include "data_internal.h"\n' > runtime/data/idx.c
}

good() {
  fresh
  if ! sh "$here/$1" "$root" > out 2>&1; then echo "FAIL $1 complains about a clean tree"; cat out; failed=1; fi
}

# bad SCRIPT FILE TEXT: appends TEXT to FILE and expects SCRIPT to fail and to name FILE.
bad() {
  fresh
  n=$((n + 1))
  printf "$3\n" >> "$2"
  if sh "$here/$1" "$root" > out 2>&1; then echo "FAIL $1 accepts in $2: $3"; failed=1
  elif ! grep -q "^FAIL $2" out; then echo "FAIL $1 doesn't name $2"; cat out; failed=1; fi
}

good includes.sh
bad includes.sh dialects/build.c '#include "passes/passes.h"'
bad includes.sh dialects/build.c '#include "runtime/abi.h"'
bad includes.sh dialects/blu.h '#include "../frontend/ast.h"'
bad includes.sh frontend/elab.c '#include "passes/passes.h"'
bad includes.sh frontend/elab.c '# include "dialects/dialects_internal.h"'
bad includes.sh passes/fuse.c '#include "frontend/ast.h"'
bad includes.sh passes/fuse.c '#include "codegen/codegen.h"'
bad includes.sh passes/fuse.c '#include "../dialects/dialects_internal.h"'
bad includes.sh passes/fuse.c '#include "runtime/abi.h"'
bad includes.sh codegen/program.c '#include "frontend/frontend.h"'
bad includes.sh codegen/program.c '#include "passes/passes_internal.h"'
bad includes.sh codegen/program.c '#include "runtime/data_internal.h"'
bad includes.sh runtime/data/idx.c '#include "dialects/blu.h"'
bad includes.sh runtime/data/idx.c '#include "../../codegen/codegen.h"'

fresh
echo 'in `passes/fuse.c`, `dialects/*.c` and `passes/NAME.c`' > docs/ir.md
if ! sh "$here/paths.sh" "$root" > out 2>&1; then echo "FAIL paths.sh complains about a clean tree"; cat out; failed=1; fi
bad paths.sh docs/ir.md 'see `passes/fuze.c`'

good text.sh
bad text.sh passes/fuse.c '\tint tab;'
bad text.sh tests/a.c '\tint tab;'
bad text.sh passes/fuse.c "// $(printf '%0160d' 0)"
bad text.sh passes/fuse.c "$(yes '//' | head -n 901 | tr '\n' '#' | sed 's/#/\\n/g')"
for word in TODO FIXME XXX; do
  bad text.sh passes/fuse.c "/* $word: later */"
  bad text.sh docs/ir.md "$word"
done
bad text.sh passes/fuse.c 'void f(void) { exit(1); }'
bad text.sh passes/fuse.c 'void f(void) { abort (); }'
bad text.sh runtime/data/idx.c 'void f(void) { _exit(1); }'
bad text.sh dialects/build.c 'void f(void) { abort(); }\nvoid g(void) { abort(); }'
echo "$n violations planted"
exit $failed
