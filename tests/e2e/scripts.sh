# scripts.sh - models/demo.sh, tests/run.sh and .ci/run say early and plainly what is wrong. They are not run in whole: that is
# what tests/run.sh itself and a fresh machine are for.
. "$(dirname "$0")/common.sh"

for script in models/demo.sh models/text.sh tests/run.sh .ci/run; do
  [ -x "$top/$script" ] || fail "$script can't be executed"
  run 0 bash -n "$top/$script"
done
for script in models/demo.sh models/text.sh tests/run.sh; do
  run 0 "$top/$script" --help
  says "^usage: $script"
  says '^exit status: 0 '
  run 2 "$top/$script" --bogus
  complains "^usage: $script"
done

# The checks of a machine that isn't this one: each case replaces one question to the machine by another answer.
machine() { # exit status, pattern, replacement, checks
  run "$1" bash -euo pipefail -c ". '$top/cmake/packages.sh'; BLU_LOGS='$work'; $3; $4"
  complains "$2"
  grep -v '^  | ' err > lines
  same "lines of '$2'" "$(wc -l < lines)" 1
}
printf 'PRETTY_NAME="Fedora Linux 40"\nID=fedora\nVERSION_ID=40\n' > fedora
machine 1 "^error: this system is 'Fedora Linux 40', .*: flex bison$" "BLU_OS=$work/fedora" 'blu_check_system "flex bison"'
run 0 bash -euo pipefail -c ". '$top/cmake/packages.sh'; BLU_OS=$work/fedora; blu_check_system ''"
machine 1 '^error: Blu runs on 64-bit x86 Linux; this machine is ' 'uname() { echo aarch64; }' 'blu_check_system ""'
machine 1 '^error: not enough room: .* needs [0-9]+ MB, and 12 MB are free' 'blu_free() { echo 12; }' 'blu_check_room ""'
machine 1 '^error: not enough room: .* needs 3[0-9]+ MB, and 2000 MB are free' \
  'blu_free() { echo 2000; }; blu_device() { echo one; }' 'blu_check_room flex'
apt() { # exit status, pattern, what apt-get says
  machine "$1" "$2" "id() { echo 0; }; blu_apt() { echo '$3'; return 100; }" 'blu_install flex'
}
apt 1 '^error: no network: .* missing: flex ' 'Err:1 x Temporary failure resolving x'
apt 1 '^error: no network: ' 'E: Failed to fetch x  Could not connect to x:80 (1.2.3.4), connection timed out'
apt 1 '^error: the disk is full ' 'dpkg: error: failed to write: No space left on device'
apt 1 '^error: another program is installing packages' 'E: Could not get lock /var/lib/dpkg/lock-frontend'
apt 1 'bookworm-security' 'E: Unable to locate package libmlir-22-dev'
apt 1 '^error: apt-get failed ' 'E: something else'
machine 1 '^error: .* root or sudo; have root run: apt-get install --no-install-recommends flex$' \
  'id() { echo 1000; }; command() { [ "$2" != sudo ]; }' 'blu_install flex'

# Everything that is asked for is a package of the list, once, and its sign is found here.
run 0 bash -euo pipefail -c ". '$top/cmake/packages.sh'; blu_missing"
same 'packages that are missing while the tests run' "$(cat out)" ''
finish
