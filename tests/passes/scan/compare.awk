# compare.awk -v most=E ONE OTHER: two outputs of `blu-opt --run --full` hold the same results, to the relative difference E. Prints what
# differs; exit status 1 then. A NaN differs from everything.
function fail(text) { print "FAIL " text; failed = 1 }
{
  name = $0; sub(/ = .*/, "", name)
  values = $0; sub(/^.* = /, "", values)
  if (FNR == NR) { one[name] = values; first++; next }
  if (!(name in one)) { fail(name " is in one alone"); next }
  second++
  n = split(one[name], a, ", ")
  if (split(values, b, ", ") != n) { fail(name " has other sizes"); next }
  for (i = 1; i <= n; i++) {
    x = a[i] + 0; y = b[i] + 0
    if (a[i] !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ || b[i] !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) fail(name ": " a[i] " and " b[i])
    size = x < 0 ? -x : x; if (size < 1) size = 1
    d = x - y; if (d < 0) d = -d
    if (d > most * size) { fail(name ", element " i - 1 ": " a[i] " and " b[i]); break }
    if (x != 0) nonzero[name] = 1
  }
  if (name ~ /^grad/ && !nonzero[name]) fail(name " is zero: nothing is tested")
}
END {
  if (first != second || !first) fail("results: " first " and " second)
  exit failed
}
