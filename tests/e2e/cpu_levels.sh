# cpu_levels.sh - every --cpu compiles, and every level that this processor has trains to nearly the same loss.
. "$(dirname "$0")/common.sh"
runs() { # level
  case $1 in
    v2) grep -qw sse4_2 /proc/cpuinfo ;;
    v3) grep -qw avx2 /proc/cpuinfo && grep -qw fma /proc/cpuinfo ;;
    v4) grep -qw avx512vl /proc/cpuinfo && grep -qw avx512bw /proc/cpuinfo && grep -qw avx512dq /proc/cpuinfo ;;
  esac
}
compile "$top/models/fashion.blu" -o default
first=
for level in v2 v3 v4; do
  compile --cpu=$level "$top/models/fashion.blu" -o $level
  run 0 ./$level info
  says "^cpu +x86-64-$level"
  if ! runs $level; then
    run 1 ./$level train --steps 1 --out r.$level
    one_line "^error: this program was compiled with --cpu x86-64-$level, and this processor lacks: "
    absent r.$level
    echo "$level: not on this processor"
    continue
  fi
  run 0 ./$level train --steps 50 --out r.$level --quiet
  loss=$(last_test loss r.$level)
  : "${first:=$loss}"
  echo "$level: test loss $loss after 50 steps"
  holds "loss with --cpu=$level" "$loss" "x > 0 && x < 2.3 && (x - $first) ^ 2 < (1e-3 * $first) ^ 2"
done
cmp default v3 || fail 'the default is not --cpu=v3'
compile --cpu native "$top/models/fashion.blu" -o native
run 0 ./native train --steps 5 --out r.native --quiet
finish
