# library.awk - docs/library.md from the comments of frontend/std/*.blu: awk -f frontend/library.awk frontend/std/*.blu
# A file's first comment introduces it; a comment right above a declaration describes it; members are listed by themselves.

function end_module() {
  if (members != "") printf "%s\n", members
  members = ""
}

function signature(line) {
  sub(/ *\{.*$/, "", line)
  return line
}

BEGIN {
  print "# The standard library\n"
  print "Written in Blu and part of the compiler: `import nn;` makes `nn.Linear` known. This text is made of the comments in"
  print "`frontend/std`, where the code is; `frontend/library.awk` makes it."
}

FNR == 1 {
  end_module()
  name = FILENAME
  sub(/^.*\//, "", name)
  sub(/\.blu$/, "", name)
  printf "%s## %s\n\n", NR == 1 ? "\n" : "", name
  text = ""
  introduced = 0
}

/^\/\/ / {
  line = substr($0, 4)
  if (!introduced && sub("^" name " - ", "", line)) line = toupper(substr(line, 1, 1)) substr(line, 2)
  text = text line "\n"
  next
}

/^(module|fn|optimizer) / {
  end_module()
  printf "### `%s`\n\n%s\n", signature($0), text
  text = ""
  next
}

/^  ((frozen )?param|state|cache) / && !/^  state .*zeros;$/ || /^  state .*: / {
  line = $0
  sub(/^ */, "", line)
  sub(/;$/, "", line)
  members = members "* `" line "`\n"
  next
}

/^  fn / {
  line = $0
  sub(/^ */, "", line)
  if (line !~ /^fn \(p, g, t\)/) members = members "* `" signature(line) "`\n"
  next
}

/^$/ {
  if (text != "" && !introduced) printf "%s\n", text
  introduced = 1
  text = ""
}

END { end_module() }
