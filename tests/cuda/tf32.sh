# tf32.sh BLUC CHECKOUT FOLDER BIN - `tf32 = true` reaches the library, whose fake then rounds what it multiplies; without it, or for the processor,
# products are of f32.
bin=$4
. "$(dirname "$0")/../e2e/common.sh"
export BLU_EMULATOR_TWINS=$work/twins
mkdir twins
column() { sed -n '/"split":"train"/ s/.*"loss":\([^,}]*\)[,}].*/\1/p' "$1/metrics.jsonl"; }
near() { paste <(column $1) <(column $2) | awk -v most=$3 '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= most * $1)) bad = 1 } END { exit bad || NR != 3 }'; }
for name in strict tf32 off; do
  case $name in strict) line= ;; tf32) line='tf32 = true;' ;; off) line='tf32 = false;' ;; esac
  sed "s/^\( *epochs = .*\)/\1 $line/" "$top/models/fashion.blu" > $name.blu
  [ -z "$line" ] || grep -q "$line" $name.blu || fail "fashion.blu has no line with epochs"
  compile -D B=20 $name.blu -o $name.cpu
  compile --target=cuda -D B=20 $name.blu -o $name.gpu
  "$bluc" --target=cuda --emit=opt -D B=20 $name.blu | "${bluc%bluc}blu-opt" -pass=fuse -pass=plan | "$bin/cuda_twins" sm_80,sm_90 twins cc > log 2>&1 || fail "no twins: $(cat log)"
  run 0 ./$name.cpu train --steps 3 --log-every 1 --eval-every 0 --out $name.a --quiet --data $data
  run 0 env LD_LIBRARY_PATH=$bin/emulator ./$name.gpu train --steps 3 --log-every 1 --eval-every 0 --out $name.b --quiet --data $data
done
near strict.a strict.b 1e-5 || fail "strict products differ from the processor's"
near tf32.a tf32.b 1e-2 || fail "products of TF32 are far from the processor's"
near tf32.a strict.a 0 || fail "the processor rounds to TF32"
near off.b strict.b 0 || fail "tf32 = false isn't the same as nothing"
near tf32.b strict.b 1e-7 && fail "tf32 = true doesn't reach the library"
finish
