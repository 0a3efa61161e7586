# faults.sh BIN SCRATCH - what goes wrong on real machines: kills during saves, full and read-only disks, damaged files,
# data that changes under a run, limits on memory, files and stack. BLU_LONG=1: every bit of every small file, and shards
# of more than 2 GiB.
. "$(dirname "$0")/common.sh"
mkdir data && "$bin/make_idx" data 83 21 4 3
long=${BLU_LONG:-}
by=${long:+1} # bits from one flip to the next
sanitized=${BLU_SANITIZED:-}
last_step() { ls "$1" | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -1; }
crashed() { [ "$1" -gt 128 ] || grep -q 'Sanitizer\|runtime error' output; }

# --- kill -9 at 50 random moments while nearly all time goes into saves ---
wide=$bin/fake_wide
i=0
while [ $i -lt 50 ]; do
  i=$((i + 1))
  resume=
  [ -n "$(last_step killed 2> /dev/null)" ] && resume=--resume
  $wide train --data data --out killed --epochs 1000000 --save-every 1 --eval-every 0 --quiet $resume > output 2>&1 &
  pid=$!
  sleep 0.0$((i * 7919 % 89 + 10))
  kill -9 $pid
  wait $pid 2> /dev/null
  got=$?
  same "kill $i" $got 137
done
for folder in killed/step-*[0-9]; do
  expect 0 'test  loss' $wide eval --data data --checkpoint $folder
  same "files of $folder" "$(ls "$folder" | xargs)" 'model.safetensors state.safetensors trainer.txt'
done
total=$(($(last_step killed) + 5))
expect 0 "done: step $total" $wide train --data data --out killed --resume --steps $total
expect 0 "done: step $total" $wide train --data data --out unkilled --steps $total --eval-every 0 --save-every 0
same 'killed 50 times' "$(hash_of killed/step-$total)" "$(hash_of unkilled/step-$total)"

# --- a file system that is full, or read-only ---
if [ "$(id -u)" = 0 ] && mkdir tiny && mount -t tmpfs -o size=200k tmpfs tiny 2> /dev/null; then
  expect 1 '^error: cannot write tiny/run/.*: No space left on device' \
    $wide train --data data --out tiny/run --save-every 1 --keep 100 --epochs 100
  step=$(last_step tiny/run)
  ls -d tiny/run/*.tmp > output 2>&1 && fail 'a half-written checkpoint on a full disk'
  expect 0 'test  loss' $wide eval --data data --checkpoint tiny/run/step-$step
  rm -r tiny/run/step-1
  expect 0 "done: step $((step + 1))" $wide train --data data --out tiny/run --resume --steps $((step + 1)) --keep 1
  mount -o remount,ro tiny
  expect 1 '^error: cannot create tiny/run/lock: Read-only file system' $wide train --data data --out tiny/run --resume --steps 99
  expect 0 'test  loss' $wide eval --data data --out tiny/run
  umount tiny
else
  echo 'SKIPPED: a full and a read-only file system: mounting is not possible here'
fi
if [ "$(id -u)" != 0 ]; then
  mkdir locked && chmod 555 locked
  expect 1 '^error: cannot create .*locked/run: Permission denied' $fake train --data data --out locked/run
else
  echo 'SKIPPED: a folder without the right to write: root may always'
fi

# --- damaged checkpoints: every flip, cut or added byte is found ---
expect 0 done $fake train --data data --out good --epochs 1
cp -r good/step-11 good/spoiled
refused() { # file, how, number
  "$bin/break_file" good/step-11/$1 good/spoiled/$1 $2 $3 || return
  $fake eval --data data --checkpoint good/spoiled > output 2>&1
  got=$?
  if [ $got -ne 1 ] || ! grep -q '^error: good/spoiled/' output; then
    # eval doesn't read the state
    [ $1 = state.safetensors ] && [ $got -eq 0 ] || fail "$1 $2 $3: exit code $got: $(cat output)"
  fi
  if [ $1 = state.safetensors ]; then
    rm -rf resumed && mkdir resumed && cp -r good/spoiled resumed/step-11 && cp good/metrics.jsonl resumed
    $fake train --data data --out resumed --resume > output 2>&1
    same "exit code for $1 $2 $3" $? 1
    grep -q '^error: resumed/step-11/state.safetensors[: ]' output || fail "$1 $2 $3: $(cat output)"
  fi
  cp good/step-11/$1 good/spoiled/$1
}
for file in model.safetensors state.safetensors trainer.txt; do
  size=$(wc -c < good/step-11/$file)
  bit=0
  while [ $bit -lt $((size * 8)) ]; do
    refused $file flip $bit
    bit=$((bit + ${by:-97}))
  done
  for bytes in 0 1 7 8 9 100 $((size - 1)); do refused $file cut $bytes; done
  for bytes in 1 8 4096; do refused $file extend $bytes; done
done

# --- damaged data: found, or another number where a number was; never a crash ---
mkdir arrays && "$bin/make_files" npy arrays 83 4 3 && "$bin/make_files" npy arrays 21 4 3 test_
mkdir table && "$bin/make_files" csv table 83 4 3
mkdir shards && "$bin/make_files" llmc16 shards/train.bin 100 0
mkdir packed && cp data/* packed && gzip packed/*
harmless() { # trainer, folder, file, bits to try, step between them
  rm -rf spoiled && cp -r "$2" spoiled
  bit=0
  while [ $bit -lt "$4" ]; do
    "$bin/break_file" "$2/$3" "spoiled/$3" flip $bit || break
    rm -rf spoiled.run
    "$bin/$1" train --data spoiled --out spoiled.run --steps 2 --eval-every 0 > output 2>&1
    got=$?
    crashed $got && fail "$2/$3: bit $bit: exit code $got: $(cat output)"
    [ $got -eq 0 ] || [ "$(grep -c '^error: ' output)" = 1 ] || fail "$2/$3: bit $bit: $(cat output)"
    bit=$((bit + $5))
  done
  for bytes in 0 1 3 9 15 50 127; do
    "$bin/break_file" "$2/$3" "spoiled/$3" cut $bytes
    "$bin/$1" train --data spoiled --out spoiled.run --steps 2 --eval-every 0 > output 2>&1
    same "exit code for $2/$3 cut to $bytes" $? 1
  done
}
harmless fake data train-images-idx3-ubyte 160 ${by:-5}
harmless fake data train-labels-idx1-ubyte 160 ${by:-7}
harmless fake packed train-labels-idx1-ubyte.gz 800 ${by:-19}
harmless fake_npy arrays image.npy 1100 ${by:-29}
harmless fake_npy arrays label.npy 1100 ${by:-31}
harmless fake_csv table train.csv 2000 ${by:-61}
harmless fake_tokens shards train.bin 9000 ${by:-401}
# gzip has a checksum: no flip at all passes
"$bin/break_file" packed/train-images-idx3-ubyte.gz spoiled.gz flip 3000
mkdir checked && cp packed/* checked && cp spoiled.gz checked/train-images-idx3-ubyte.gz
expect 1 'checked/train-images-idx3-ubyte.gz: the gzip file is damaged' $fake train --data checked --out checked.run

# --- data that changes under a run: replaced is harmless, written to or cut is an error ---
start() { # folder
  $fake train --data "$1" --out "$1.run" --epochs 1000000 --save-every 20 > "$1.out" 2>&1 &
  pid=$!
  until ls -d "$1".run/step-*[0-9] > output 2>&1; do sleep 0.02; done
}
cp -r data replaced && start replaced
cp data/t10k-images-idx3-ubyte replaced/new && mv replaced/new replaced/train-images-idx3-ubyte
sleep 0.1
kill -TERM $pid
wait $pid
same 'exit code with a file replaced' $? 143
cp -r data written && start written
touch written/train-images-idx3-ubyte
wait $pid
same 'exit code with a file written to' $? 1
expect 0 '^error: written/train-images-idx3-ubyte: the file was changed while this program read it$' cat written.out
"$bin/make_idx" data 3000 21 4 3
cp -r data cut && start cut
: > cut/train-images-idx3-ubyte
wait $pid
same 'exit code with a file cut' $? 1
expect 0 '^error: \(a data file became shorter\|cut/train-images-idx3-ubyte: the file was changed\)' cat cut.out
"$bin/make_idx" data 83 21 4 3

# --- limits ---
if [ -z "$sanitized" ]; then
  (ulimit -v 1000; exec $fake train --data data --out small) > output 2>&1
  same 'exit code with little memory' $? 1
  says '^error: \(cannot reserve [0-9]* bytes of memory\|cannot map\|cannot start thread\)'
  (ulimit -s 64; exec $fake train --data data --out shallow --threads 3) > output 2>&1 || fail "64 KB of stack: $(cat output)"
fi
(ulimit -n 5; exec $fake train --data data --out files) > output 2>&1
same 'exit code with few files' $? 1
says '^error: .*\(Too many open files\|No file descriptors available\)'

# --- clocks that jump don't matter: time fields come from one that only goes forward ---
awk -F'"time":' '{ if ($2 + 0 < last) exit 1; last = $2 + 0 }' good/metrics.jsonl || fail 'time goes back'

# --- shards of more than 2 GiB (sparse) ---
if [ -n "$long" ] && [ "$(df -Pk . | awk 'NR == 2 { print $4 }')" -gt 4000000 ]; then
  mkdir giant && "$bin/make_files" llmc16 giant/train.bin 0 0
  truncate -s $((1024 + 2 * 1100000001)) giant/train.bin
  count=1100000001
  for at in 8 9 10 11; do
    printf "\\$(printf %03o $((count % 256)))" | dd of=giant/train.bin bs=1 seek=$at conv=notrunc 2> /dev/null
    count=$((count / 256))
  done
  printf '\007\000' | dd of=giant/train.bin bs=1 seek=$((1024 + 2 * 1099999996)) conv=notrunc 2> /dev/null
  expect 0 'done: step 137500000\|done: step 3' "$bin/fake_tokens" train --data giant --out giant.run --steps 3
  printf '\377\377' | dd of=giant/train.bin bs=1 seek=$((1024 + 2 * 1099999996)) conv=notrunc 2> /dev/null
  expect 1 'giant/train.bin: the token at offset 1099999996 is 65535' "$bin/fake_tokens" train --data giant --out giant2.run --steps 3
  rm -r giant
fi
finish
