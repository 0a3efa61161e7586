#!/bin/sh
# stubs.sh CC LD OBJECT FOLDER: FOLDER/stub_libc.so and FOLDER/stub_libm.so with the names that OBJECT, and code that the compiler may emit, use
# of glibc, in the versions that this machine's glibc gives to new programs. They have the names of the real ones and no code.
set -eu
cc=$1 ld=$2 object=$3 folder=$4
# what the code of a program may call although the runtime doesn't
more="memcpy memmove memset memcmp fma fmaf"
wanted=$(nm -u "$object" | awk '{ print $NF }' | grep -vxE 'blu_program|_GLOBAL_OFFSET_TABLE_|blu_embedded'; printf '%s\n' $more)
wanted=$(printf '%s\n' "$wanted" | sort -u)

# NAME VERSION KIND of what a library defines; @@ marks the version for new programs.
names() { nm -D --with-symbol-versions --defined-only "$1" | awk '$3 ~ /@@/ { split($3, part, "@@"); print part[1], part[2], $2 }'; }

found=
for library in c m; do
  path=$($cc -print-file-name=lib$library.so.6)
  names "$path" > "$folder/stub_$library.names"
  list=$(printf '%s\n' "$wanted" | awk 'NR == FNR { of[$1] = $2 " " $3; next } $1 in of { print $1, of[$1] }' "$folder/stub_$library.names" -)
  found="$found $(printf '%s\n' "$list" | awk '{ print $1 }')"
  # variables have a size, which the linker copies
  printf '%s\n' "$list" | awk 'NF { data = $3 ~ /^[BDVR]$/
    printf ".globl %s\n.type %s, @%s\n.%s\n%s:\n.quad 0\n.size %s, 8\n", $1, $1, data ? "object" : "function", data ? "data" : "text", $1, $1 }
    END { print ".section .note.GNU-stack, \"\", @progbits" }' > "$folder/stub_$library.s"
  printf '%s\n' "$list" | awk 'NF { names[$2] = names[$2] " " $1 ";" } END { for (v in names) printf "%s { global:%s };\n", v, names[v] }' | sort > "$folder/stub_$library.map"
  [ -s "$folder/stub_$library.map" ] || echo 'NONE { };' > "$folder/stub_$library.map"
  $cc -c "$folder/stub_$library.s" -o "$folder/stub_$library.o"
  $ld -shared --soname=lib$library.so.6 --version-script="$folder/stub_$library.map" --hash-style=gnu -z noexecstack -o "$folder/stub_lib$library.so" "$folder/stub_$library.o"
done
for name in $wanted; do
  case " $(echo $found) " in *" $name "*) ;; *) echo "the device runtime uses $name, which is not glibc's" >&2; exit 1 ;; esac
done
