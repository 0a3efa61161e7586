# interrupted.sh BIN SCRATCH - a run that dies, or whose file system fails, at every single call that changes a file; the order in
# which a checkpoint reaches the disk; a time of day that jumps; steps that allocate nothing; memory that control groups limit.
. "$(dirname "$0")/common.sh"
mkdir data && "$bin/make_idx" data 83 21 4 3
faulty=$bin/fake_faulty
# 6 steps with checkpoints of which one stays, the best one, and evaluations
train() { $faulty train --data data --steps 6 --save-every 2 --eval-every 3 --log-every 1 --keep 1 "$@" > output 2>&1; }

train --out whole --quiet
same 'the run itself' $? 0
wanted=$(hash_of whole/step-6)
FAULT=trace TRACE=trace train --out traced --quiet
calls=$(tail -n 1 trace | cut -d ' ' -f 1)
[ "$calls" -gt 60 ] || fail "only $calls calls"

# --- the order: files, then their folder, then the name, then the folder above ---
awk -v step="step-2" '
  $2 == "fsync" && $3 ~ step "[.]tmp/[a-z]*[.](safetensors|txt)$" { files++ }
  $2 == "write" && $3 ~ step "[.]tmp/" && folder { print "written after its folder was synced: " $0 }
  $2 == "fsync" && $3 ~ step "[.]tmp$" { folder = files == 3; if (!folder) print "folder synced after " files + 0 " files" }
  $2 == "rename" && $3 ~ step "[.]tmp$" { name = folder; if (!folder) print "named before its folder was synced" }
  $2 == "fsync" && $3 ~ "/traced$" && name { above = 1 }
  $2 ~ /unlink|rename/ && $3 ~ "/step-0|best$" && !above && name { print "older things went before: " $0 }
  END { if (!above) print "the folder above was not synced" }' trace > wrong
[ -s wrong ] && fail "order: $(cat wrong)"

# What is there under a checkpoint's name is whole; going on from it gives the run that was not interrupted.
goes_on() { # what
  resume=
  for folder in broken/step-*[0-9]; do
    [ -e "$folder" ] || continue
    resume=--resume
    $faulty eval --data data --checkpoint "$folder" > output 2>&1 || fail "$1: $folder: $(cat output)"
  done
  train --out broken --quiet $resume || fail "$1: going on: $(cat output)"
  same "$1: weights" "$(hash_of broken/step-6)" "$wanted"
  same "$1: metrics" "$(timeless broken)" "$(timeless whole)"
  same "$1: what is left" "$(ls broken | xargs)" "$(ls whole | xargs)"
}
n=0
while [ $n -lt "$calls" ]; do
  n=$((n + 1))
  rm -rf broken
  FAULT=kill:$n train --out broken --quiet
  got=$?
  same "exit code when killed at call $n" $got 137
  goes_on "killed at call $n, $(sed -n "$n s/^[0-9]* //p" trace)"
  rm -rf broken
  FAULT=fail:$n train --out broken --quiet
  got=$?
  what="call $n fails, $(sed -n "$n s/^[0-9]* //p" trace)"
  # what tidies up may fail in silence
  if [ $got -eq 0 ]; then
    sed -n "$n p" trace | grep -q ' unlink \| rmdir \| rename .*/step-[0-9]*$' || fail "$what: no error"
  else
    same "$what: exit code" $got 1
    same "$what: errors" "$(grep -c '^error: ' output) $(wc -l < output)" '1 1'
    ls -d broken/step-*.tmp > listed 2>&1 && fail "$what: $(cat listed) is left"
  fi
  if [ -e broken/step-6 ]; then same "$what: weights" "$(hash_of broken/step-6)" "$wanted"; else goes_on "$what"; fi
done

# --- a time of day that jumps ---
CLOCK=wild $faulty train --data data --out wild --tensorboard --epochs 100000 --max-minutes 0.03 --log-every 100 > output 2>&1
same 'exit code with a wild clock' $? 0
says '^stopped after 0.03 minutes at step [0-9]*;'
sed -n 's/.*  \([0-9]*\) samples.s  *[0-9.]*% of peak$/\1/p' output | awk '!($1 > 100 && $1 < 1e9) { bad = 1 } END { exit bad || NR < 3 }' || fail "rates: $(head -n 5 output)"
sed -n 's/.*"time":\([-0-9.]*\)}/\1/p' wild/metrics.jsonl |
  awk '!($1 >= last && $1 < 30) { exit bad = 1 } { last = $1 } END { exit bad || last < 1.5 }' || fail "times: $(tail -n 2 wild/metrics.jsonl)"
if command -v script > output; then
  CLOCK=wild script -qec "$faulty train --data data --out left --epochs 300 --save-every 0 --eval-every 0" terminal.out > output 2>&1
  tr '\r' '\n' < terminal.out | sed -n 's/.*\/3300  \(-\{0,1\}[0-9]*\):.* left.*/\1/p' > left.txt
  awk '!($1 >= 0 && $1 < 2) { bad = 1 } END { exit bad || !NR }' left.txt || fail "minutes left: $(sort -u left.txt | xargs)"
fi

# --- once it runs, a step allocates nothing, with a report after each ---
if [ -z "${BLU_SANITIZED:-}" ]; then
  for threads in 1 3; do
    STEPS=steps $faulty train --data data --out "steps.$threads" --threads $threads --epochs 30 --eval-every 0 --save-every 0 --log-every 1 \
      --tensorboard > output 2>&1
    same "with $threads threads" "$(cat steps)" '330 steps, 0 allocations'
  done
fi

# --- what control groups grant, and what the machine has ---
limited() { # limit of memory, command...
  unshare --mount sh -c 'mount -t tmpfs none /sys/fs/cgroup && echo "$1" > /sys/fs/cgroup/memory.max && shift && exec "$@"' sh "$@"
}
# others in the group have 19,990,000 bytes, of which 10,000 are pages of files
shared() { # command...
  limited 20000000 sh -c 'echo 19990000 > /sys/fs/cgroup/memory.current
    printf "anon 19980000\nfile 10000\nshmem 1\ninactive_file 4000\nactive_file 6000\n" > /sys/fs/cgroup/memory.stat; exec "$@"' sh "$@"
}
if limited max true 2> output; then
  expect 1 '^error: this program needs [0-9]* bytes of memory ([0-9]* for its arena, [0-9]* for the scratch of 2 threads), but only 2000 are available here$' \
    limited 2000 "$bin/fake_wide" train --data data --out limited --threads 2
  ls -d limited/step-* > output 2>&1 && fail 'a run without memory left a checkpoint'
  expect 0 '^done: step 22' limited 20000000 "$bin/fake_wide" train --data data --out limited --threads 2
  expect 1 'but only 20000 are available here$' shared "$bin/fake_wide" train --data data --out shared --threads 2
  expect 0 '^done: step 22' limited max "$bin/fake_wide" train --data data --out unlimited --threads 2
else
  echo 'SKIPPED: a control group of our own: mounting is not possible here'
fi
available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
expect 1 'but only [0-9]* are available here$' "$bin/fake_huge" train --data data --out huge
granted=$(sed -n 's/.*but only \([0-9]*\) are.*/\1/p' output)
[ "$granted" -le $((available * 1024 + 1000000000)) ] || fail "of $available kB it takes $granted bytes for granted"
finish
