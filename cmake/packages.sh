# packages.sh - what Blu needs from the machine, and the early checks that say plainly what is missing. Sourced by models/demo.sh and
# tests/run.sh, which call blu_machine_ready once and the phases after it; it is the only list of packages. It needs no network and no
# rights when everything is there.

BLU_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BLU_LLVM=/usr/lib/llvm-22
BLU_DATA=/usr/share/datasets/fashion-mnist
BLU_LOGS=$BLU_TOP/build/logs

# Debian package, and a file or command that shows that it is there.
BLU_PACKAGES="
g++                    g++
binutils               objcopy
cmake                  cmake
ninja-build            ninja
flex                   flex
bison                  bison
llvm-22-dev            $BLU_LLVM/lib/libLLVMCore.a
llvm-22-tools          $BLU_LLVM/bin/FileCheck
libmlir-22-dev         $BLU_LLVM/lib/libMLIRIR.a
mlir-22-tools          $BLU_LLVM/bin/mlir-tblgen
liblld-22-dev          $BLU_LLVM/lib/liblldELF.a
lld-22                 $BLU_LLVM/bin/ld.lld
musl-tools             musl-gcc
zlib1g-dev             /usr/include/zlib.h
libzstd-dev            /usr/include/zstd.h
libcjson-dev           /usr/include/cjson/cJSON.h
dataset-fashion-mnist  $BLU_DATA/train-images-idx3-ubyte.gz
"

# Megabytes, rounded up from what was measured on a bare Debian 12: packages 345 to fetch and 2,100 installed; build folders with the
# sanitizers' one and all runs of the tests.
BLU_ROOM_PACKAGES=2700
BLU_ROOM_BUILD=600

blu_fail() {
  echo "error: $*" >&2
  exit 1
}

blu_have() { case $1 in /*) [ -e "$1" ] ;; *) command -v "$1" > /dev/null 2>&1 ;; esac; }

# Names of the packages whose file or command is not there.
blu_missing() {
  local package sign
  while read -r package sign; do
    if [ -n "$package" ] && ! blu_have "$sign"; then echo "$package"; fi
  done <<< "$BLU_PACKAGES"
}

# Megabytes free where a path lies, and the device that holds it.
blu_free() { df -Pm "$1" | awk 'NR == 2 { print $4 }'; }
blu_device() { df -Pm "$1" | awk 'NR == 2 { print $1 " " $6 }'; }

blu_check_system() { # the missing packages
  local release=${BLU_OS:-/etc/os-release} name=unknown id= version=
  [ "$(uname -s) $(uname -m)" = 'Linux x86_64' ] ||
    blu_fail "Blu runs on 64-bit x86 Linux; this machine is $(uname -s) $(uname -m)"
  if [ -r "$release" ]; then
    name=$(. "$release" && echo "${PRETTY_NAME:-unknown}")
    id=$(. "$release" && echo "${ID:-}")
    version=$(. "$release" && echo "${VERSION_ID:-}")
  fi
  if [ -n "$1" ] && [ "$id $version" != 'debian 12' ]; then
    blu_fail "this system is '$name', and packages are installed on Debian 12 only; once you have installed what corresponds to" \
      "these Debian packages (LLVM and MLIR 22.1 under $BLU_LLVM), Blu may well build here:" $1
  fi
}

blu_check_room() { # the missing packages
  local here=$BLU_ROOM_BUILD system=0
  [ -w "$BLU_TOP" ] || blu_fail "$BLU_TOP can't be written by $(id -un): clone Blu to a folder of your own"
  if [ -n "$1" ]; then system=$BLU_ROOM_PACKAGES; fi
  if [ "$(blu_device "$BLU_TOP")" = "$(blu_device /usr)" ]; then here=$((here + system)); system=0; fi
  [ "$(blu_free "$BLU_TOP")" -ge "$here" ] ||
    blu_fail "not enough room: $BLU_TOP needs $here MB, and $(blu_free "$BLU_TOP") MB are free there"
  [ "$(blu_free /usr)" -ge "$system" ] ||
    blu_fail "not enough room: the packages need $system MB, and $(blu_free /usr) MB are free in /usr"
}

blu_apt() {
  local root=''
  # Without a terminal sudo must not wait for a password that nobody types.
  if [ "$(id -u)" != 0 ]; then root=sudo; [ -t 0 ] || root='sudo -n'; fi
  $root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2 \
    -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 "$@" < /dev/null
}

# Why apt-get failed, from its own words.
blu_explain_apt() { # log, packages
  local log=$1
  shift
  tail -n 5 "$log" | cut -c 1-200 | sed 's/^/  | /' >&2
  if grep -qE 'sudo: .*(password|terminal)|not in the sudoers' "$log"; then
    blu_fail "sudo does not let $(id -un) install packages; have root run: apt-get install --no-install-recommends $*"
  elif grep -qE 'Could not get lock|Unable to acquire the dpkg' "$log"; then
    blu_fail "another program is installing packages; try again when it is done (log: $log)"
  elif grep -qE 'No space left|enough free space' "$log"; then
    blu_fail "the disk is full (log: $log)"
  elif grep -qE 'resolving|Could not resolve|onnect to|onnection|timed out|unreachable' "$log"; then
    blu_fail "no network: the package servers can't be reached, and these packages are missing: $* (log: $log)"
  elif grep -qE 'Unable to locate package|no installation candidate' "$log"; then
    blu_fail "this machine's package sources lack a package; LLVM 22 comes with the security updates of Debian 12:" \
      "is bookworm-security in /etc/apt/sources.list? (log: $log)"
  fi
  blu_fail "apt-get failed (log: $log)"
}

blu_install() { # packages
  local log=$BLU_LOGS/packages.log
  command -v apt-get > /dev/null || blu_fail "apt-get is missing, and these packages are needed: $*"
  [ "$(id -u)" = 0 ] || command -v sudo > /dev/null ||
    blu_fail "packages are missing, and installing them takes root or sudo; have root run:" \
      "apt-get install --no-install-recommends $*"
  : > "$log"
  # An update that fails in part, such as for a source that has nothing to do with Blu, is judged by whether the install works.
  blu_apt update >> "$log" 2>&1 || true
  blu_apt install -y --no-install-recommends "$@" >> "$log" 2>&1 || blu_explain_apt "$log" "$@"
}

# Everything before the build: the right system, room, packages.
blu_machine_ready() {
  local missing start=$SECONDS
  missing=$(blu_missing | xargs)
  blu_check_system "$missing"
  blu_check_room "$missing"
  mkdir -p "$BLU_LOGS"
  if [ -z "$missing" ]; then
    echo "packages: all there"
    return
  fi
  echo "packages: installing $missing and what they need (log: $BLU_LOGS/packages.log)"
  blu_install $missing
  missing=$(blu_missing | xargs)
  [ -z "$missing" ] || blu_fail "apt-get installed everything, and still this is not where it should be: $missing"
  echo "packages: installed, $((SECONDS - start)) s"
}

# Trainers are compiled for x86-64-v3 unless asked otherwise.
blu_has_avx2() { grep -qw avx2 /proc/cpuinfo; }

# Runs a command whose output goes to a log; on a terminal its last line shows that something happens.
blu_quietly() { # log, command
  local log=$1 pid
  shift
  if [ ! -t 1 ]; then "$@" > "$log" 2>&1 < /dev/null; return; fi
  "$@" > "$log" 2>&1 < /dev/null &
  pid=$!
  trap 'kill $pid 2> /dev/null; echo; exit 130' INT TERM
  while kill -0 $pid 2> /dev/null; do
    printf '\r%s\033[K' "$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-75)"
    sleep 0.2
  done
  printf '\r\033[K'
  trap - INT TERM
  wait $pid
}

# One line for a phase that is done, such as "build: built, 40 s"; when it fails, what helps of its output.
blu_phase() { # name, log, command
  local name=$1 log=$2 start=$SECONDS
  shift 2
  if blu_quietly "$log" "$@"; then
    echo "$name, $((SECONDS - start)) s"
  else
    # the first errors of compiler and linker say more than the last lines
    { grep -E -m 10 -A 2 'error:|Error at|undefined symbol' "$log" || tail -n 10 "$log"; } | cut -c 1-200 | sed 's/^/  | /' >&2
    blu_fail "not $name; all of the output is in $log"
  fi
}

# Configures a folder and builds targets in it; what was built before stays.
blu_build() { # folder below the checkout, targets, options for cmake
  local name=$1 folder=$BLU_TOP/$1 targets=$2
  shift 2
  # cmake refuses a folder that was made for another checkout, such as one that has been moved
  if [ -e "$folder/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$BLU_TOP" "$folder/CMakeCache.txt"; then
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  blu_phase "$name: configured" "$BLU_LOGS/$name-configure.log" \
    cmake -G Ninja -S "$BLU_TOP" -B "$folder" -DCMAKE_BUILD_TYPE=Release "$@"
  blu_phase "$name: built" "$BLU_LOGS/$name-build.log" ninja -C "$folder" $targets
}
