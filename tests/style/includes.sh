#!/bin/sh
# includes.sh ROOT: #include lines keep the direction of dependency between the folders. A folder may include its own headers,
# and of others only the public ones that are listed here.
root=$1 failed=0 n=0
cd "$root" || exit 2

# allowed FILE HEADER: may FILE (frontend/elab.c) include HEADER (dialects/blu.h)?
allowed() {
  from=${1%%/*} to=${2%%/*}
  if [ "$from" = "$to" ]; then return 0; fi
  case $2 in *_internal.h) return 1 ;; esac
  case $from:$2 in
    frontend:dialects/*) ;;
    passes:dialects/*) ;;
    codegen:dialects/* | codegen:passes/passes.h | codegen:passes/kernel.h | codegen:runtime/abi.h | codegen:runtime/data.h | codegen:runtime/safetensors.h | codegen:runtime/tokenizer.h) ;;
    codegen:frontend/*) [ "$1" = codegen/bluc.c ] ;;   # the driver alone sees all stages
    *) return 1 ;;
  esac
}

for file in $(find frontend dialects passes codegen runtime -type f \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.y' -o -name '*.l' -o -name '*.inc' \) | sort); do
  folder=${file%%/*}
  here=${file%/*}
  for header in $(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file"); do
    n=$((n + 1))
    if [ -f "$here/$header" ]; then path=$here/$header           # beside the file
    elif [ -f "$folder/$header" ]; then path=$folder/$header     # in its folder, from a folder below
    elif [ -f "$header" ]; then path=$header                     # from the root, with the folder's name
    else continue                                                # generated, or a header of LLVM
    fi
    while :; do                                                  # a/../b is b
      shorter=$(printf '%s\n' "$path" | sed 's|[^/.][^/]*/\.\./||')
      if [ "$shorter" = "$path" ]; then break; fi
      path=$shorter
    done
    if ! allowed "$file" "$path"; then
      echo "FAIL $file includes $header"; failed=1
    fi
  done
done
if [ $n -eq 0 ]; then echo "FAIL no #include found"; failed=1; fi
exit $failed
