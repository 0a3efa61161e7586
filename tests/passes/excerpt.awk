# excerpt.awk EXCERPT OUTPUT: is the excerpt really in the output? Blanks at both ends of lines don't count, and runs of them are one;
# numbers of values (%12, %arg3) may differ; `...` within a line stands for any text, and a line `...` for any lines. Lines that follow
# each other in the excerpt do so in the output.
function normal(s) {
  gsub(/%[0-9]+/, "%N", s)
  gsub(/%arg[0-9]+/, "%A", s)
  gsub(/[ \t]+/, " ", s)
  sub(/^ /, "", s)
  sub(/ $/, "", s)
  return s
}
function matches(pattern, s,   part, n, i, at) {
  n = split(pattern, part, /\.\.\./)
  if (substr(s, 1, length(part[1])) != part[1]) return 0
  s = substr(s, length(part[1]) + 1)
  for (i = 2; i < n; i++) {
    at = index(s, part[i])
    if (!at) return 0
    s = substr(s, at + length(part[i]))
  }
  if (n == 1) return s == ""
  return length(s) >= length(part[n]) && substr(s, length(s) - length(part[n]) + 1) == part[n]
}
FNR == NR { excerpt[++n] = normal($0); next }
{ out[++m] = normal($0) }
END {
  at = 0; free = 1
  for (i = 1; i <= n; i++) {
    if (excerpt[i] == "...") { free = 1; continue }
    if (excerpt[i] == "") continue
    while (++at <= m) {
      if (out[at] == "") continue
      if (matches(excerpt[i], out[at])) break
      if (!free) { # the run so far began at another place than it seemed: begin it again behind its first line
        at = begin
        while (i > 1 && excerpt[i - 1] != "...") i--
        free = 1
      }
    }
    if (at > m) { print "not in the output: " excerpt[i]; exit 1 }
    if (free) begin = at
    free = 0
  }
}
