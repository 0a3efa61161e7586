# symbols.sh RUNTIME_OBJECT TRAINER - what may and may not be inside: no function of libm whose bits depend on the C
# library, nothing undefined but the program, no dynamic linking, and not much of anything.
set -u
names="exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|sincos|tan|asin|acos|atan|atan2|sinh|cosh|tanh"
names="$names|erf|erfc|cbrt|tgamma|lgamma"
bad=$(nm "$1" | awk '{print $NF}' | grep -E "^($names)[fl]?\$")
if [ -n "$bad" ]; then echo "libm functions in the runtime:" $bad; exit 1; fi
undefined=$(nm -u "$1" | awk '$1 == "U" && $2 != "blu_program" && $2 != "_GLOBAL_OFFSET_TABLE_" {print $2}')
if [ -n "$undefined" ]; then echo "undefined in the runtime:" $undefined; exit 1; fi
if readelf -l "$2" | grep -q -e INTERP -e DYNAMIC; then echo "$2 is dynamic"; exit 1; fi
bytes=$(wc -c < "$2")
if [ "$bytes" -gt 400000 ]; then echo "$2 has $bytes bytes"; exit 1; fi
