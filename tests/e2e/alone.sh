# alone.sh - making a trainer takes bluc and nothing else; a trainer takes nothing at all.
. "$(dirname "$0")/common.sh"

env -i PATH=/nonexistent "$bluc" "$top/models/fashion.blu" -o fashion || fail 'bluc without a PATH'
env -i /nonexistent/fashion > /dev/null 2>&1 && fail 'a program that is not there was run'
# ldd's words and exit status for a static program
run 1 env LC_ALL=C ldd ./fashion
same 'what ldd says' "$(cat out err | sed 's/^[[:space:]]*//')" 'not a dynamic executable'
holds 'size of the trainer' "$(stat -c %s fashion)" 'x > 1000 && x < 1000000'
run 0 ./fashion source
cmp -s out "$top/models/fashion.blu" || fail 'the trainer does not carry its source'
run 0 ./fashion info
says '^parameters +6 tensors, 235146 elements, 940584 bytes$'
says '^compiler +bluc [0-9.]+$'

# In a file system that holds bluc, the libraries that it names and the model: no compiler, linker, header or start file. (bluc hands
# its parts to the linker inside it by /proc/self/fd.)
bare() { unshare --mount sh -c 'mkdir -p bare/proc && mount -t proc proc bare/proc && exec chroot bare "$@"' sh "$@"; }
if unshare --mount sh -c 'mkdir -p bare/proc && mount -t proc proc bare/proc' 2> err; then
  mkdir bare/tmp
  cp "$bluc" "$top/models/fashion.blu" bare
  ldd "$bluc" | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p' | while read -r library; do
    mkdir -p "bare$(dirname "$library")"
    cp -L "$library" "bare$library"
  done
  run 0 bare /bluc fashion.blu -o made
  cmp bare/made fashion || fail 'a bare system gave another trainer'
  rm bare/bluc
  # the trainer beside nothing but its data
  mkdir -p empty/data
  cp fashion empty
  cp "$data"/*.gz empty/data
  run 0 chroot empty /fashion train --data /data --steps 20 --out /run --quiet
  run 0 chroot empty /fashion eval --data /data --out /run
  says '^/run/step-20: test +loss '
else
  echo "this user may not mount: the checks inside chroot were left out"
fi
finish
