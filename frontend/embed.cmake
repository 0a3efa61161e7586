# embed.cmake - the standard library's text as a C table: cmake -DOUT=std.c "-DFILES=a.blu;b.blu" -P embed.cmake
# Files come in the order given; the result depends on their names and contents alone.
set(text "#include \"elab_internal.h\"\n\nconst BluStdFile blu_std[] = {\n")
set(count 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
  # One string per line of at most 40 bytes: a C compiler need not take very long ones in one piece.
  string(REGEX REPLACE "((\\\\x[0-9a-f][0-9a-f])(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?(\\\\x[0-9a-f][0-9a-f])?)"
    "    \"\\1\"\n" bytes "${bytes}")
  string(APPEND text "  {\"${name}\",\n${bytes}  },\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND text "};\nconst int blu_nstd = ${count};\n")
file(WRITE ${OUT} "${text}")
