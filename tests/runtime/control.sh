# control.sh BIN SCRATCH - run control: when a run evaluates, saves, reports and ends; what it does about NaN; one folder
# has one owner; export, import, plot, TensorBoard.
. "$(dirname "$0")/common.sh"
mkdir data && "$bin/make_idx" data 83 21 4 3
steps_of() { ls "$1" | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | xargs; }
train() { $fake train --data data "$@"; }

# --- when ---
expect 0 '^done: step 22' train --out often --eval-every 3 --save-every 4 --log-every 5 --keep 3
same 'evaluations' "$(sed -n 's/.*"step":\([0-9]*\),.*"test".*/\1/p' often/metrics.jsonl | xargs)" '3 6 9 12 15 18 21 22'
same 'reports' "$(sed -n 's/.*"step":\([0-9]*\),.*"train".*/\1/p' often/metrics.jsonl | xargs)" '5 10 11 15 20 22'
same 'the best' "$(readlink often/best)" step-21
same 'checkpoints' "$(steps_of often)" '20 21 22'
expect 0 '^done: step 22' train --out seldom --eval-every 0 --save-every 0
same 'checkpoints at the end only' "$(steps_of seldom) $(grep -c test seldom/metrics.jsonl)" '22 0'
# in parts, the settings are kept; the whole is the same
expect 0 'step 7' train --out parts --eval-every 3 --save-every 4 --log-every 5 --keep 3 --steps 7
expect 0 'step 13' train --out parts --resume --steps 13
expect 0 'done: step 22' train --out parts --resume
same 'metrics in parts' "$(timeless parts | grep -v '"step":7,.*test\|"step":13,.*test')" "$(timeless often)"
same 'weights in parts' "$(hash_of parts/step-22)" "$(hash_of often/step-22)"
expect 0 '^changed since step 22: rate 0.5 -> 0.25, save_every 4 -> 6$' \
  train --out parts --resume --set rate=0.25 --save-every 6 --epochs 3
expect 0 '^done' train --out parts --resume --epochs 4
grep -q 'changed' output && fail 'nothing was changed this time'

# --- a terminal: one line, redrawn, with the time that is left ---
if command -v script > output; then
  script -qec "$fake train --data data --out terminal --epochs 20 --save-every 0" terminal.out > output 2>&1
  tr '\r' '\n' < terminal.out > output
  says 'epoch 20  \[====================\] 220/220  0:00 left  loss [0-9.]*  accuracy'
  says 'epoch [0-9]*  \[=*\.*\] [0-9]*/220  0:0[0-9] left  loss '
fi

# --- the ends ---
expect 0 '^stopped after 0 minutes at step 0; checkpoint: short/step-0; give --resume' train --out short --max-minutes 0
expect 0 '^stopped after 0.01 minutes at step [0-9]*;' train --out timed --max-minutes 0.01 --epochs 1000000 --save-every 0
expect 0 '^stopped at step [0-9]*: 2 evaluations without a test loss below [0-9.]*, that of step' \
  train --out patient --patience 2 --set rate=30 --epochs 100
best=$(readlink patient/best)
last=$(steps_of patient | awk '{ print $NF }')
same 'steps after the best' $((last - ${best#step-})) 22
says "that of step ${best#step-}; checkpoint: patient/step-$last"
expect 0 'test  loss' $fake eval --data data --checkpoint patient/best
expect 0 '^nothing was written' train --out dry --dry-run
says '^run  *22 steps from step 1 on; 11 an epoch; to dry$'
[ -e dry ] && fail '--dry-run made a folder'

# --- SIGUSR1: a checkpoint, and on it goes ---
$fake train --data data --out usr1 --epochs 1000000 --save-every 0 --eval-every 0 > usr1.out 2>&1 &
pid=$!
until [ -s usr1/metrics.jsonl ]; do sleep 0.02; done
kill -USR1 $pid
tries=0
until grep -q 'SIGUSR1: checkpoint of step' usr1.out || [ $tries -gt 200 ]; do sleep 0.02; tries=$((tries + 1)); done
saved=$(sed -n 's/^SIGUSR1: checkpoint of step \([0-9]*\) saved$/\1/p' usr1.out)
[ -e "usr1/step-$saved/trainer.txt" ] || fail "SIGUSR1: no checkpoint of step '$saved'"
# --- one folder, one owner ---
for i in 1 2 3; do
  expect 1 "^error: usr1/lock: another trainer is writing to this folder (process $pid on " train --out usr1 --resume
done
kill -TERM $pid
wait $pid
same 'exit code after SIGTERM' $? 143
[ -e usr1/lock ] && fail 'the lock was left behind'
# a lock whose owner was killed is nobody's
$fake train --data data --out owned --epochs 1000000 > owned.out 2>&1 &
pid=$!
until [ -e owned/best ]; do sleep 0.02; done
kill -9 $pid
wait $pid 2> output
[ -e owned/lock ] || fail 'no lock'
step=$(($(steps_of owned | awk '{ print $NF }') + 3))
expect 0 "^done: step $step" train --out owned --resume --steps $step

# --- NaN: stop or skip; a loss that jumps ---
expect 1 "^error: step 10: the gradient of 'fc.weight' is not finite" train --out nan --set poison=9
# the update is not made and not counted: the next batch, a partial one, passes as step 9 of the optimizer
expect 0 "^step 10: the gradient of 'fc.weight' is not finite.* the step is left out$" \
  train --out skip --set poison=9 --nan skip
says '^1 steps were left out for a NaN or infinity$'
expect 0 '"step":10,"epoch":1,"split":"event","event":"skipped"' cat skip/metrics.jsonl
expect 0 '^skipped=1$' cat skip/step-22/trainer.txt
expect 0 'step 9' train --out skip_parts --set poison=9 --nan skip --steps 9
expect 0 'step 10' train --out skip_parts --resume --steps 10
expect 0 'done: step 22' train --out skip_parts --resume
same 'skipped in parts' "$(hash_of skip_parts/step-22)" "$(hash_of skip/step-22)"
"$bin/make_idx" data 80 21 4 3 # no partial batch: every one is poisoned
expect 1 '^error: 100 steps in a row were not finite; the last: step 109: the gradient of' \
  train --out stuck --set poison=9 --nan skip --epochs 1000
"$bin/make_idx" data 83 21 4 3
expect 0 '^step 61: the loss is 100[.0-9]*, [0-9.]* standard deviations above the mean [0-9.]* of recent steps; the norm' \
  train --out spike --set spike=60 --epochs 8
same 'events' "$(grep -c loss_spike spike/metrics.jsonl)" 1

# --- shards: 83 examples in batches of 8 ---
expect 0 '^data        42 of 83 training examples' train --out shard0 --shard 0/2 --dry-run
expect 0 '^done: step 6' train --out shard0 --shard 0/2 --epochs 1
expect 0 '^done: step 6' train --out shard1 --shard 1/2 --epochs 1
[ "$(hash_of shard0/step-6)" != "$(hash_of shard1/step-6)" ] || fail 'two shards give the same weights'
expect 0 '^done: step 11' train --out shard_none --epochs 1
expect 0 '^done: step 11' train --out shard_one --epochs 1 --shard 0/1
same 'one shard of one' "$(hash_of shard_one/step-11)" "$(hash_of shard_none/step-11)"
expect 0 '^shard=1/2$' cat shard1/step-6/trainer.txt
expect 0 '^done: step 12' train --out shard1 --resume --epochs 2
expect 0 '^done: step 12' train --out shard_whole --shard 1/2 --epochs 2
same 'a resumed shard' "$(hash_of shard1/step-12)" "$(hash_of shard_whole/step-12)"
expect 1 '^error: the checkpoint was made with --shard 1/2: leave --shard out to resume' train --out shard1 --resume --shard 0/2
expect 1 '^error: 83 training examples are too few for 1000 shards' train --out shard_few --shard 90/1000
for wrong in 2/2 -1/2 1 1/ /2 a/b 0/0; do
  expect 2 "^error: .*--shard is part/parts, such as 0/4 to 3/4, not '$wrong'" train --out shard_wrong --shard "$wrong"
done

# --- profile, peak ---
expect 0 '^profile of 22 steps: [0-9.]* ms each in kernels$' train --out profile --profile
says '^ *[0-9.]*% *[0-9.]* *1  forward  fake.blu:1: // the source of fake.blu$'
says ' samples/s  [0-9.]*% of peak$'

# --- export, import ---
expect 0 '^wrote the parameters of often/best to m.safetensors$' $fake export --checkpoint often/best --output m.safetensors
cmp m.safetensors often/best/model.safetensors || fail 'export changes bytes'
expect 0 '^made fresh/step-0 from m.safetensors' $fake import m.safetensors --out fresh
expect 0 'test  loss' $fake eval --data data --out fresh
same 'the imported model' "$(sed 's/.*test//' output)" "$($fake eval --data data --checkpoint often/best | sed 's/.*test//')"
expect 0 '^done: step 22' train --out fresh --resume
expect 1 'fresh holds a checkpoint of step 22: give another --out' $fake import m.safetensors --out fresh
expect 1 'does not fit this program' "$bin/fake_table" import m.safetensors --out other
[ -e other ] && fail 'a refused import left a folder'
expect 0 '^wrote' $fake export --checkpoint often/best --output w.npy
same 'exported arrays' "$(ls w.*.npy | xargs)" 'w.fc.bias.npy w.fc.weight.npy'
same 'size of an array' "$(wc -c < w.fc.weight.npy)" $((128 + 16 * 3 * 4))
expect 1 'its name must end in .safetensors or .npy' $fake export --checkpoint often/best --output m.pt

# --- plot, licenses, TensorBoard ---
expect 0 '^  \* often train: [0-9.]* at step 22$' $fake plot often
silent $fake plot often parts --metric accuracy --svg plot.svg
expect 0 '^<polyline fill="none"' cat plot.svg
same 'curves' "$(grep -c '<polyline' plot.svg)" 4
expect 1 "no line of metrics.jsonl has a value of 'nothing'" $fake plot often --metric nothing
expect 1 'cannot open nowhere/metrics.jsonl: No such file' $fake plot nowhere
expect 0 'Apache License' $fake licenses
says 'Rich Felker'
says 'Jean-loup Gailly'
expect 0 '^done' train --out board --tensorboard
expect 0 '^93 records: brain.Event:2$' "$bin/read_events" board/events.out.tfevents.*
same 'scalars' "$("$bin/read_events" board/events.out.tfevents.* | sed -n 's/^22 \(t[a-z_\/]*\) .*/\1/p' | xargs)" \
  'train/loss train/accuracy train/grad_norm train/lr test/loss test/accuracy'
finish
