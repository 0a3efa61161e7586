# plan_check.awk FILE FILE: reads planned IR (twice: give the file two times) and runs its launches over a picture of the arena. Every launch must find its operands where
# blu.places says, untouched; the results must stand at their places at the end; nothing that is kept may be written before the
# commit. Prints what is wrong; exit status 1 then.
function fail(text) { printf "FAIL %s: %s\n", func_name, text; failed = 1 }
function bytes_of(type,   n, k, i, part) {
  gsub(/^tensor<|>$/, "", type)
  k = split(type, part, "x")
  n = part[k] ~ /64/ ? 8 : part[k] ~ /32/ ? 4 : 1
  for (i = 1; i < k; i++) n *= part[i]
  return n
}
# all tensor types of a text, in order, to out[1..]
function types_of(text, out,   n) {
  n = 0
  while (match(text, /tensor<[^>]*>/)) {
    out[++n] = substr(text, RSTART, RLENGTH)
    text = substr(text, RSTART + RLENGTH)
  }
  return n
}
function list_of(text, name, out) {
  if (!match(text, name " = array<i64[^>]*>")) return 0
  text = substr(text, RSTART, RLENGTH)
  sub(/^.*array<i64:? ?/, "", text)
  sub(/>$/, "", text)
  return split(text, out, ", ")
}
function int_of(text, name) {
  if (!match(text, name " = [0-9]+")) return -1
  text = substr(text, RSTART, RLENGTH)
  sub(/^.* /, "", text)
  return text + 0
}
function root(v) { return v in alias ? alias[v] : v }
# what a body gets from outside has a number in the place of an offset: each a space of its own, far from the frame
function far(at) { return at < 0 ? at * 2 ^ 40 : at }
function put(at, size, v,   i) {
  at = far(at)
  if (at < 0) ;
  else if (at % 64) fail(v " stands at " at ", not at a multiple of 64")
  else if (at + size > arena) fail(v " ends at " at + size ", behind the arena")
  for (i = 1; i <= held; )
    if (from[i] < at + size && at < to[i]) { from[i] = from[held]; to[i] = to[held]; holds[i] = holds[held]; held-- }
    else i++
  if (size) { from[++held] = at; to[held] = at + size; holds[held] = v }
}
function look(at, size, v, what,   i) {
  if (!size) return
  at = far(at)
  for (i = 1; i <= held; i++) if (from[i] == at && holds[i] == root(v) && to[i] == at + size) return
  fail(what " " v " is not at " at)
}

/^module/ { whole = int_of($0, "blu.arena"); kept = int_of($0, "blu.kept") }
FNR == NR { # the frames of bodies, which come after what runs them
  if (/^ *func.func private/) {
    func_name = $3
    sub(/\(.*/, "", func_name)
    frame[func_name] = int_of($0, "blu.bytes")
  }
  next
}
/^ *func.func private/ && /blu.kernel/ { inside = 0 }
/^ *func.func/ && !/blu.kernel/ {
  inside = 1
  body = $2 == "private"
  arena = body ? int_of($0, "blu.bytes") : whole
  func_name = body ? $3 : $2
  sub(/\(.*/, "", func_name)
  held = 0; split("", alias)
  launches = 0
  commit = int_of($0, "blu.commit")
  nargs = list_of($0, "blu.args", place)
  head = $0
  sub(/ attributes .*/, "", head)
  for (i = 0; i < nargs; i++) {
    if (!match(head, "%arg" i ": tensor<[^>]*>")) fail("no argument " i)
    one = substr(head, RSTART, RLENGTH)
    sub(/^.*: /, "", one)
    put(place[i + 1], bytes_of(one), "%arg" i)
  }
  nresults = list_of($0, "blu.results", end_place)
}
inside && / = blu.reshape / { alias[$1] = root($4) }
inside && / = blu.scan @/ {
  line = $0
  nplaces = list_of(line, "blu.places", place)
  steps = int_of(line, " steps"); carries = int_of(line, "carries"); called = line
  sub(/^.*blu.scan /, "", called); sub(/\(.*/, "", called)
  inputs = line; sub(/^[^(]*\(/, "", inputs); sub(/\).*/, "", inputs)
  nin = split(inputs, input, ", ")
  sub(/^.*} : /, "", line)
  n = types_of(line, type)
  if (n + 1 != nplaces) fail("launch " launches " has " nplaces " places for " n " tensors and a frame")
  for (i = 1; i <= nin; i++) look(place[i], bytes_of(type[i]), input[i], "launch " launches ": operand")
  for (i = 1; i <= n + 1; i++) # all of them at once, a carry with its last value
    for (k = 1; k < i; k++) {
      if (i > n && place[i] == -1) continue
      size = i > n ? frame[called] : bytes_of(type[i])
      other = bytes_of(type[k])
      if (far(place[k]) < far(place[i]) + size && far(place[i]) < far(place[k]) + other && !(i == nin + k && k <= carries) && !(i <= nin && input[i] == input[k] && k > carries))
        fail("launch " launches ": tensors " k - 1 " and " i - 1 " share bytes")
    }
  name = $1; sub(/:.*/, "", name)
  for (i = nin + 1; i <= n; i++) put(place[i], bytes_of(type[i]), name (n - nin > 1 ? "#" (i - nin - 1) : ""))
  if (place[n + 1] != -1) put(place[n + 1], frame[called], "the frame") # else of a thread
  launches++
}
inside && / = call @/ {
  line = $0
  nplaces = list_of(line, "blu.places", place)
  inputs = line; sub(/^[^(]*\(/, "", inputs); sub(/\).*/, "", inputs)
  nin = split(inputs, input, ", ")
  sub(/^.*blu.places = array<i64[^>]*>} : /, "", line)
  sub(/^ *call.*/, "", line)
  n = types_of(line, type)
  if (n != nplaces) fail("launch " launches " has " nplaces " places for " n " tensors")
  for (i = 1; i <= nin; i++) look(place[i], bytes_of(type[i]), input[i], "launch " launches ": operand")
  name = $1; sub(/:.*/, "", name)
  for (i = nin + 1; i <= n; i++) {
    if (launches < commit && !body && place[i] < kept) fail("launch " launches " writes at " place[i] ", which is kept, before the commit at " commit)
    for (k = 1; k < i; k++)
      if (far(place[k]) < far(place[i]) + bytes_of(type[i]) && far(place[i]) < far(place[k]) + bytes_of(type[k]) && !(k <= nin && place[k] == place[i]))
        fail("launch " launches ": result " i - nin - 1 " shares bytes with tensor " k - 1)
    put(place[i], bytes_of(type[i]), name (n - nin > 1 ? "#" (i - nin - 1) : ""))
  }
  launches++
}
inside && /^ *return/ {
  values = $0; sub(/^ *return ?/, "", values); types = values
  sub(/ : .*/, "", values)
  if (nresults) {
    split(values, value, ", ")
    sub(/^.* : /, "", types)
    if (types_of(types, type) != nresults) fail("the places don't match the results")
    for (i = 1; i <= nresults; i++) look(end_place[i], bytes_of(type[i]), value[i], "at the end: result")
  }
  if (!body && (commit > launches || commit < 0)) fail("commit " commit " of " launches " launches")
  functions++
  inside = 0
}
END {
  if (!functions) { print "FAIL no planned function"; failed = 1 }
  exit failed
}
