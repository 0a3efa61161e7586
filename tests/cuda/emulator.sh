# emulator.sh BIN SCRATCH - the emulator finds what it is there to find: mistakes of a host, and faults planted into kernels, one for each check.
. "$(dirname "$0")/../runtime/common.sh"
LD_LIBRARY_PATH=$bin/emulator BLU_EMULATOR_TWINS=$bin/twins
export LD_LIBRARY_PATH BLU_EMULATOR_TWINS
driver=$bin/driver_test

for seed in 0 1 2 3 4 5; do
  for case in good graphs events; do
    expect 0 '^good$' env BLU_EMULATOR_SEED=$seed $driver $case
    says "^emulated: no GPU, kernels run on the processor to be checked; seed $seed\$"
  done
done
expect 0 '^good$' env BLU_EMULATOR_SEED=1 $driver late

# host PATTERN CASE: the mistake is one line, and the exit status 1.
host() {
  expect 1 "^emulated: fault$1" $driver $2
  [ "$(grep -c fault output)" = 1 ] || fail "$2 is more than one line"
}
host ' in function pixels, block ([01], 0, 0), thread ([0-9]*, 0, 0), site [0-9]*: it reads byte [0-9]* of 4096 of global memory, which nobody has written' unsent
host ' in function pixels, block (1, 0, 0), thread ([0-9]*, 0, 0), site [0-9]*: it writes 4 bytes at .*, which is no memory of the device' beyond
host ' in function pixels, .*: it reads 4 bytes at .*, which is memory of the host' host
host ' in function pixels, .*: it reads 4 bytes at 0x1[0-9a-f]*, which is no memory of the device' foreign
host ' in function pixels, .*: it reads 4 bytes at byte [0-9]* of memory that was freed' after_free
host ': pixels is launched with blocks of (1056, 1, 1) threads; 1024 are allowed' many_threads
host ': pixels is launched without blocks or threads' no_blocks
host ': total is launched with 65536 bytes of shared memory; it was granted 49152' much_shared
host ': a copy writes 64 bytes at byte 4088 of 4096: beyond the end' long_copy
host ': a copy writes 64 bytes at .*, which is memory of the host' host_copy
host ': 0x[0-9a-f]* is freed, which is no memory of the device' foreign_free
host ': left behind at the end: ' left_memory

# kernel PLANT PATTERN: a whole training on kernels with one fault, for several seeds.
mkdir data && "$bin/../runtime/make_idx" data 83 21 4 3
kernel() {
  for seed in 1 2 3; do
    expect 1 "^emulated: fault in function $2" env BLU_EMULATOR_SEED=$seed BLU_EMULATOR_TWINS=$bin/twins_$1 $bin/fake_device train --data data --out $1.$seed --steps 2
    [ "$(grep -c fault output)" = 1 ] || fail "$1 is more than one line"
  done
}
in='block ([0-9]*, 0, 0), thread ([0-9]*, 0, 0), site'
kernel no_barrier "\(total\|squares\), $in [0-9]*: \(race: it \(reads\|writes\) byte [0-9]* of 512 of shared memory\|it reads byte [0-9]* of 512 of shared memory, which nobody has written\)"
kernel off_by_one "squares, $in [0-9]*: \(it reads byte [0-9]* of [0-9]* of global memory, which nobody has written\|race: it \(reads\|writes\) .* global memory\)"
kernel no_bound "softmax, block (7, 0, 0), thread ([0-9]*, 0, 0), site [0-9]*: it writes 4 bytes at .*, which is no memory of the device"
kernel block_race "pixels, $in [0-9]*: race: it writes byte [0-9]* of [0-9]* of global memory, which .*thread [0-9]* of block [01] has written, and no barrier lies between"
kernel never_written "squares, $in [0-9]*: \(it reads byte [0-9]* of [0-9]* of global memory, which nobody has written\|race: it reads .* global memory\|race: it writes .* global\)"
kernel some_barrier "total, $in \(101: race: it writes byte [0-9]* of 512 of shared memory\|3[0-9]*: a barrier that not all threads come to: thread [0-9]* \(has ended\|is at the barrier\)\)"
kernel two_barriers "total, $in 3[0-9]*: a barrier that not all threads come to: thread [0-9]* is at the barrier of site 3[0-9]*"
kernel some_shuffle "softmax, $in 20[0-9]: a shuffle that not all of its lanes come to: thread [0-9]* is at the shuffle of site 20[0-9]"
kernel heap "pixels, $in [0-9]*: it reads 4 bytes at .*, which is no memory of the device"
kernel shared_beyond "total, $in 100: it reads 4 bytes at byte 516 of 512 of shared memory"
kernel shared_unwritten "total, $in 100: it reads byte 276 of 512 of shared memory, which nobody has written"
finish
