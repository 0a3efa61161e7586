# e2e.sh BIN SCRATCH - trains, stops, resumes and mistreats the trainers made from fake_program.c.
. "$(dirname "$0")/common.sh"

# 83 examples in batches of 8: 11 steps an epoch, the last batch of 3 rows.
mkdir data && "$bin/make_idx" data 83 21 4 3

# --- a whole run: output in a pipe, metrics, checkpoints, evaluation ---
expect 0 '^epoch 2  step 22/22  loss [0-9.]*  accuracy [01].[0-9]*  grad_norm [0-9.]*  lr [0-9.]*  [0-9]* samples/s  [0-9.]*% of peak$' \
  $fake train --data data --out whole
says '^epoch 1  train  loss [0-9.]*  accuracy [0-9.]*  grad_norm [0-9.]*  lr [0-9.]*  |  test  loss [0-9.]*  accuracy [0-9.]*  |  [0-9.]* s$'
says '^done: step 22, checkpoint: whole/step-22$'
expect 0 '^{"step":22,"epoch":2,"split":"train","loss":[0-9.e-]*,"accuracy":[0-9.e-]*,"grad_norm":[0-9.e-]*,"lr":[0-9.]*,"time":[0-9.]*}$' \
  cat whole/metrics.jsonl
expect 0 '^{"step":22,"epoch":2,"split":"test","loss":[0-9.e-]*,"accuracy":1,"time":[0-9.]*}$' cat whole/metrics.jsonl
same 'checkpoints' "$(ls whole)" "$(printf 'best\nmetrics.jsonl\nstep-11\nstep-22')"
same 'the best' "$(readlink whole/best)" step-22
same 'files' "$(ls whole/step-22)" "$(printf 'model.safetensors\nstate.safetensors\ntrainer.txt')"
expect 0 '^whole/step-22: test  loss [0-9.]*  accuracy 1.000000  (21 examples)$' $fake eval --data data --out whole
expect 0 '^whole/step-11: test ' $fake eval --data=data --checkpoint whole/step-11 --threads 2
expect 0 'nothing to do: 22 of 22' $fake train --data data --out whole --resume
expect 1 'whole holds a checkpoint of step 22: give --resume' $fake train --data data --out whole
$fake train --data data --out quiet --quiet --epochs 1 > output 2>&1
same 'quiet' "$(cat output)" ''
same 'steps of one epoch' "$(ls -d quiet/step*)" 'quiet/step-11'
expect 0 'step 3/3' $fake train --data data --out by_setting --set stop=3

# --- equal bits: threads, gzip, seeds ---
for threads in 1 2 3; do
  expect 0 done $fake train --data data --out threads$threads --threads $threads
  same "$threads threads" "$(hash_of threads$threads/step-22)" "$(hash_of whole/step-22)"
  same "metrics of $threads threads" "$(timeless threads$threads)" "$(timeless whole)"
done
mkdir packed && cp data/* packed && gzip packed/*
expect 0 done $fake train --data packed --out packed.run
same 'gzip' "$(hash_of packed.run/step-22)" "$(hash_of whole/step-22)"
expect 0 done $fake train --data data --out seed2 --seed 2
[ "$(hash_of seed2/step-22)" != "$(hash_of whole/step-22)" ] || fail 'another seed gave the same model'

# --- 20 steps at once, and 7 + 7 + 6: over the end of an epoch, with a half-written save left behind ---
expect 0 'step 20' $fake train --data data --out once --steps 20
expect 0 'step 7' $fake train --data data --out parts --steps 7
mkdir parts/step-9.tmp
expect 0 'step 14' $fake train --data data --out parts --steps 14 --resume --threads 3
[ -e parts/step-9.tmp ] && fail 'a half-written checkpoint was left behind'
expect 0 'step 20' $fake train --data data --out parts --steps 20 --resume
same 'resumed model' "$(hash_of parts/step-20)" "$(hash_of once/step-20)"
same 'resumed state' "$(sha256sum < parts/step-20/state.safetensors)" "$(sha256sum < once/step-20/state.safetensors)"
same 'resumed metrics' "$(timeless parts)" "$(timeless once)"
same 'two checkpoints and the best' "$(ls -d parts/step-*)" "$(printf 'parts/step-11\nparts/step-14\nparts/step-20')"
cp -r once other_seed
expect 1 'made with --seed 1: leave --seed out' $fake train --data data --out other_seed --resume --seed 5 --steps 30
expect 1 'holds no checkpoint to resume' $fake train --data data --out nothing --resume

# --- signals: stop with a checkpoint and the right code; killed at any moment: the last checkpoint is whole ---
for signal in INT TERM; do
  $fake train --data data --out stopped$signal --epochs 1000000 > stopped 2>&1 &
  pid=$!
  until ls -d stopped$signal/step-*[0-9] > output 2>&1; do sleep 0.02; done
  kill -$signal $pid
  wait $pid
  got=$?
  case $signal in INT) code=130 ;; *) code=143 ;; esac
  same "exit code after SIG$signal" $got $code
  step=$(ls stopped$signal | sed -n 's/^step-//p' | sort -n | tail -1)
  grep -q "^stopped by signal .* after step $step; checkpoint: stopped$signal/step-$step; give --resume" stopped ||
    fail "message after SIG$signal: $(tail -1 stopped)"
done
step=$((step + 40))
expect 0 "done: step $step" $fake train --data data --out stoppedTERM --resume --steps $step
expect 0 "done: step $step" $fake train --data data --out unstopped --steps $step
same 'stopped and resumed' "$(hash_of stoppedTERM/step-$step)" "$(hash_of unstopped/step-$step)"
same 'its metrics' "$(timeless stoppedTERM)" "$(timeless unstopped)"
for i in 1 2 3 4 5 6 7 8 9 10; do
  resume=
  [ -n "$(ls -d killed/step-*[0-9] 2> /dev/null)" ] && resume=--resume
  $fake train --data data --out killed --epochs 1000000 --quiet $resume > output 2>&1 &
  pid=$!
  until [ -n "$resume" ] || ls -d killed/step-*[0-9] > listed 2>&1 || ! kill -0 $pid; do sleep 0.02; done # of the first one there is something to go on from
  sleep 0.0$((i * 37 % 90 + 10))
  kill -9 $pid
  wait $pid 2> /dev/null
done
step=$(ls killed | sed -n 's/^step-\([0-9]*\)$/\1/p' | sort -n | tail -1)
total=$((step + 5))
expect 0 "done: step $total" $fake train --data data --out killed --resume --steps $total
expect 0 "done: step $total" $fake train --data data --out unkilled --steps $total
same 'killed and resumed' "$(hash_of killed/step-$total)" "$(hash_of unkilled/step-$total)"
same 'its metrics' "$(timeless killed)" "$(timeless unkilled)"

# --- a step that is not finite; a disk that is full ---
expect 1 "^error: step 14: the gradient of 'fc.weight' is not finite (its sum of squares is nan);" \
  $fake train --data data --out nan --set poison=13
says 'the last checkpoint is nan/step-11'
same 'checkpoints after NaN' "$(ls -d nan/step-*)" nan/step-11
expect 0 'step 12/12' $fake train --data data --out nan --resume --set poison=-1 --steps 12
expect 1 'step 2: the loss is inf;' $fake train --data data --out nan_loss --set rate=1e38
wide=$bin/fake_wide
expect 0 done $wide train --data data --out full --steps 5
(ulimit -f 16; exec $wide train --data data --out full --resume) > output 2>&1
same 'exit code on a full disk' $? 1
says '^error: cannot write full/step-11.tmp/model.safetensors: File too large$'
same 'folder after a full disk' "$(ls full)" "$(printf 'metrics.jsonl\nstep-5')"
expect 0 done $wide train --data data --out full --resume
expect 0 done $wide train --data data --out roomy
same 'resumed after a full disk' "$(hash_of full/step-22) $(timeless full)" "$(hash_of roomy/step-22) $(timeless roomy)"

# --- other programs ---
expect 0 'warning: .*made by another program (hash 0000000000001234, this is 0000000000000077)' \
  "$bin/fake_hash" eval --data data --out once
cp -r once table
expect 1 'error: table/step-20/model.safetensors does not fit this program:' \
  "$bin/fake_table" train --data data --out table --resume --epochs 9
says '^  fc.offset: missing in the checkpoint$'
says '^  fc.bias: f32\[3\] in the checkpoint, missing in the program$'
expect 1 'version 77 of the runtime.s interface, the runtime version' "$bin/fake_abi" info
expect 1 'error: this program needs 1125899906[0-9]* bytes of memory.*but only [0-9]* are available' \
  "$bin/fake_huge" train --data data --out huge
expect 1 'this program has no train block: it cannot train' "$bin/fake_untrained" train
expect 1 'this program has no train block: it cannot eval' "$bin/fake_untrained" eval

# --- data that is not what it should be; each case spoils one file of a good folder ---
spoil() {
  rm -rf bad
  cp -r data bad
}
spoiled() { expect 1 "$1" $fake train --data bad --out spoiled; }
spoil; rm bad/train-images-idx3-ubyte
spoiled 'error: bad/train-images-idx3-ubyte: no such file (nor with .gz); --data DIR'
spoil; head -c 500 data/train-images-idx3-ubyte > bad/train-images-idx3-ubyte
spoiled 'bad/train-images-idx3-ubyte: the file is truncated: its header promises 1344 bytes, but it has 500'
spoil; head -c 7 data/train-labels-idx1-ubyte > bad/train-labels-idx1-ubyte
spoiled 'bad/train-labels-idx1-ubyte: the file is truncated: its header promises 8 bytes, but it has 7'
spoil; : > bad/train-labels-idx1-ubyte
spoiled 'bad/train-labels-idx1-ubyte: not an IDX file: it has only 0 bytes'
spoil; echo x >> bad/t10k-labels-idx1-ubyte
spoiled 'bad/t10k-labels-idx1-ubyte: the file has trailing bytes: its header promises 29 bytes, but it has 31'
spoil; cp "$0" bad/train-labels-idx1-ubyte
spoiled 'bad/train-labels-idx1-ubyte: not an IDX file of labels: it should start with 0x00000801, but starts'
spoil; cp data/train-labels-idx1-ubyte bad/train-images-idx3-ubyte
spoiled 'not an IDX file of images: it should start with 0x00000803, but starts with 0x00000801'
spoil; cp data/t10k-labels-idx1-ubyte bad/train-labels-idx1-ubyte
spoiled 'bad/train-images-idx3-ubyte has 83 examples, but bad/train-labels-idx1-ubyte has 21$'
spoil; "$bin/make_idx" bad 83 21 4 5
spoiled "bad/train-labels-idx1-ubyte: the value at index 3 is 3, but 'label' must be less than 3"
spoil; "$bin/make_idx" bad 83 21 5 3
spoiled "bad/train-images-idx3-ubyte: an example is 5x5 here, but the program's 'image' is f32\[8,4,4\]"
spoil; gzip bad/train-images-idx3-ubyte; head -c 200 bad/train-images-idx3-ubyte.gz > cut
mv cut bad/train-images-idx3-ubyte.gz
spoiled 'bad/train-images-idx3-ubyte.gz: the file is truncated: its gzip stream goes on after 200 bytes'
spoil; gzip bad/train-labels-idx1-ubyte
size=$(wc -c < bad/train-labels-idx1-ubyte.gz)
printf '\000' | dd of=bad/train-labels-idx1-ubyte.gz bs=1 seek=$((size - 6)) conv=notrunc 2> /dev/null
spoiled 'bad/train-labels-idx1-ubyte.gz: the gzip file is damaged: incorrect data check'
spoil; gzip bad/train-labels-idx1-ubyte; echo more >> bad/train-labels-idx1-ubyte.gz
spoiled 'bad/train-labels-idx1-ubyte.gz: 5 bytes follow the end of the gzip stream'
spoil; rm bad/t10k-*; mv data/t10k-labels-idx1-ubyte bad; cp bad/t10k-labels-idx1-ubyte data
spoiled 'bad/t10k-images-idx3-ubyte: no such file'
[ -e spoiled ] && fail 'bad data left an output folder'
spoil; rm bad/t10k-*
expect 0 'done: step 22' $fake train --data bad --out untested
expect 1 'bad/t10k-images-idx3-ubyte: no such file' $fake eval --data bad --out untested

# --- the command line ---
expect 2 "^error: unknown command 'trian', did you mean 'train'?$" $fake trian
expect 2 "^error: train: unknown option '--epoch', did you mean '--epochs'?$" $fake train --epoch 3
expect 2 "^error: eval: unknown option '--resume'" $fake eval --resume
expect 2 "^error: train: unknown argument 'data'" $fake train data
expect 2 'option --epochs needs a value: N' $fake train --epochs
expect 2 "option --epochs needs a whole number from 0, not '-1'" $fake train --epochs -1
expect 2 "option --threads needs a whole number from 1, not '0'" $fake train --threads=0
expect 2 "option --steps needs a whole number from 0, not '5x'" $fake train --steps 5x
expect 2 'option --resume takes no value' $fake train --resume=yes
expect 2 "no run value 'rat', did you mean 'rate'?" $fake train --set rat=1
expect 2 "the value 'fast' of 'rate' is not a finite number" $fake train --set rate=fast
expect 2 "'rate' is not of the form name=value" $fake train --set rate
expect 2 '^commands:$' $fake
expect 0 '^commands:$' $fake help
expect 0 '^exit codes: 0 done, 1 failed, 2 wrong usage' $fake --help
for command in train eval predict info export import plot source licenses; do
  expect 0 '^example:$' $fake $command --help
  expect 0 '^exit codes:' $fake help $command
done
: > file
expect 1 'error: cannot create folder file/out: Not a directory' $fake train --data data --out file/out
expect 1 'error: file is not a folder' $fake train --data data --out file
expect 1 'holds no checkpoint; --checkpoint DIR or --out DIR' $fake eval --data data --out nowhere
expect 1 'cannot open nowhere/model.safetensors: No such file' $fake eval --data data --checkpoint nowhere
expect 1 "setting 'stop' is -1, which is not a number" $fake train --data data --out x --set stop=-1
same 'source' "$($fake source)" '// the source of fake.blu'
same 'plan' "$($fake info --plan)" 'plan of fake'
expect 0 '^  fc.weight  *f32\[16,3\]  *192$' $fake info
expect 0 '^parameters  2 tensors, 51 elements, 204 bytes$' $fake info
expect 0 '^  arena  *2816 = 896 kept + 1920 overlaid' $fake info
expect 0 '^  data set, training  *1435 for 83 examples, mapped: as far as used$' $fake info --data data
expect 1 'cannot write to standard output' sh -c "$fake info > /dev/full"

finish
