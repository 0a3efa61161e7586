#!/bin/sh
# named.sh BLU_OPT FILE..: every pass of blu-opt has NAME.mlir here, and every .mlir but verify.mlir is among the files that are run.
opt=$1 failed=0
shift
cd "$(dirname "$0")" || exit 2
for pass in $("$opt" --help | awk '/^passes/ { on = 1; next } on && /^  / { print $1; next } on { exit }'); do
  case " $* " in *" $pass "*) ;; *) echo "FAIL the pass $pass has no test"; failed=1 ;; esac
  if ! grep -q "^// RUN: .*-pass=$pass" "$pass.mlir"; then
    echo "FAIL $pass.mlir doesn't run the pass"; failed=1
  fi
done
for f in *.mlir; do
  case " $* verify " in *" ${f%.mlir} "*) ;; *) echo "FAIL no test reads $f"; failed=1 ;; esac
done
exit $failed
