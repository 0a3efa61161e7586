# ranks.sh BIN SCRATCH - several processes that train one model: the bits of one process, epochs that don't divide, resuming, signals,
# NaN; and what goes wrong: variables, ranks that are missing, killed, stopped or different. Nothing may hang: every run has a limit.
. "$(dirname "$0")/common.sh"
sums=$bin/fake_sums
mkdir data && "$bin/make_idx" data 83 21 4 3
state_of() { sha256sum < "$1/state.safetensors"; }
# limited SECONDS CODE PATTERN COMMAND...: as expect, within that time; a sanitized build takes longer to end
limited() {
  limit=$1
  shift
  code=$1 pattern=$2
  shift 2
  expect "$code" "$pattern" timeout -k 5 "$limit" "$@"
}
train() { limited 200 "$@"; }
errors() { same "errors of $1" "$(grep -c '^error: ' output)" "$2"; }

# --- 83 examples in batches of 8: 3 ranks share 4 steps an epoch, as one process with 3 micro-batches a step; the last has 8 + 3 + 0 ---
train 0 '^done: step 8' $sums train --data data --out one --accumulate 3 --log-every 1
train 0 '^epoch 2  step 8/8  loss [0-9.]*  accuracy .* samples/s  [0-9.]*% of peak  3 ranks$' $sums train --data data --out three --ranks 3 --log-every 1
same 'weights of 3 ranks' "$(hash_of three/step-8)" "$(hash_of one/step-8)"
same 'metrics of 3 ranks' "$(timeless three)" "$(timeless one)"
expect 0 '^ranks=3$' cat three/step-8/trainer.txt
for threads in 1 2 3; do
  train 0 '^done: step 8' $sums train --data data --out threads$threads --ranks 3 --threads $threads
  same "weights with $threads threads" "$(hash_of threads$threads/step-8)" "$(hash_of one/step-8)"
  same "state with $threads threads" "$(state_of threads$threads/step-8)" "$(state_of three/step-8)"
done
train 0 '^done: step 6' $sums train --data data --out two_two --ranks 2 --accumulate 2
train 0 '^done: step 6' $sums train --data data --out two_two_again --ranks 2 --accumulate 2
same '2 ranks with 2 micro-batches, twice' "$(hash_of two_two/step-6) $(state_of two_two/step-6)" \
  "$(hash_of two_two_again/step-6) $(state_of two_two_again/step-6)"
same 'their evaluations' "$(timeless two_two)" "$(timeless two_two_again)"
# 10 examples: one step an epoch for 3 ranks, two of them with rows; for 2 ranks too
mkdir ten && "$bin/make_idx" ten 10 2 4 3
for ranks in 2 3 12; do
  train 0 '^done: step 2' $sums train --data ten --out ten$ranks --ranks $ranks
  train 0 '^done: step 2' $sums train --data ten --out ten$ranks.one --accumulate $ranks
  same "10 examples on $ranks ranks" "$(hash_of ten$ranks/step-2)" "$(hash_of ten$ranks.one/step-2)"
done
train 0 '^ranks  *3, 8 examples of a batch each$' $sums train --data data --out dry --ranks 3 --dry-run
says '^run  *8 steps from step 1 on; 4 an epoch; to dry$'
[ -e dry ] && fail '--dry-run made a folder'
silent timeout 200 $sums train --data data --out quiet --ranks 3 --quiet
train 0 '^done: step 8' $sums train --data data --out single --ranks 1 --accumulate 3
same 'one rank' "$(hash_of single/step-8)" "$(hash_of one/step-8)"
train 0 '^exchanges of 8 steps with other ranks: [0-9.]* ms each$' $sums train --data data --out profile --ranks 2 --profile --steps 8
same 'profiles' "$(grep -c '^profile of' output)" 2

# --- resuming: the same number of ranks gives the same bits, another is told ---
train 0 'step 3' $sums train --data data --out parts --ranks 3 --steps 3
train 0 'step 5' $sums train --data data --out parts --ranks 3 --resume --steps 5 --threads 1
train 0 'step 8' $sums train --data data --out parts --ranks 3 --resume
same 'resumed' "$(hash_of parts/step-8) $(state_of parts/step-8)" "$(hash_of three/step-8) $(state_of three/step-8)"
train 0 'nothing to do: 8 of 8' $sums train --data data --out parts --ranks 3 --resume
same 'told once' "$(wc -l < output)" 1
train 0 '^warning: the checkpoint was made by 3 ranks, and here is 1: .* equal bits are not promised$' \
  $sums train --data data --out parts --resume --epochs 3
says '^done: step 12'
expect 0 '^accumulate=3$' cat parts/step-12/trainer.txt
train 0 '^warning: the checkpoint was made by 1 rank, and here are 3: ' $sums train --data data --out parts --resume --epochs 4 --ranks 3
train 1 "^error: the checkpoint's steps have 3 micro-batches, which 2 ranks can't share equally$" \
  $sums train --data data --out parts --resume --epochs 5 --ranks 2
errors 'ranks that do not divide' 1
train 1 '^error: three holds a checkpoint of step 8: give --resume' $sums train --data data --out three --ranks 3
errors 'an error of rank 0' 1

# --- decisions are those of one process: the best, patience, NaN in one micro-batch of rank 1 or 2, time ---
train 0 '^stopped at step [0-9]*: 2 evaluations without' $sums train --data data --out patient --ranks 2 --patience 2 --set rate=30 --epochs 100
train 1 "^error: step 3: the gradient of 'fc.weight' is not finite" $sums train --data data --out nan --ranks 3 --set poison=2
errors 'a NaN' 1
train 0 "^step 3: the gradient of 'fc.weight' is not finite.* left out$" $sums train --data data --out skip --ranks 3 --set poison=2 --nan skip --steps 3
train 0 'done: step 2' $sums train --data data --out unskipped --ranks 3 --steps 2
same 'weights after a step left out' "$(hash_of skip/step-3) $(state_of skip/step-3)" "$(hash_of unskipped/step-2) $(state_of unskipped/step-2)"
train 0 '^stopped after 0 minutes at step 0; checkpoint: short/step-0' $sums train --data data --out short --ranks 2 --max-minutes 0
train 1 '^error: step 4: rank 1 has other parameters or states than rank 0: nothing is saved' $sums train --data data --out spoilt --ranks 3 --set spoil=1
errors 'parameters that differ' 1
ls -d spoilt/step-* > listed 2>&1 && fail "parameters that differ were saved: $(cat listed)"

# --- signals to any rank reach all ---
others_of() { ps -o pid= --ppid "$1" | xargs; } # of a rank 0 that started them
alive() { for p; do kill -0 "$p" 2> /dev/null && [ "$(ps -o stat= -p "$p" | cut -c 1)" != Z ] && echo "$p"; done; }
# start NAME OPTION..: 3 ranks in the background; sets pid, and others
start() {
  name=$1
  shift
  timeout -k 5 300 $sums train --data data --out "$name" --ranks 3 --epochs 100000000 --save-every 0 --eval-every 0 "$@" > "$name.out" 2>&1 &
  waiting=$!
  until [ -s "$name/metrics.jsonl" ] || ! kill -0 $waiting 2> /dev/null; do sleep 0.02; done
  pid=$(others_of $waiting)
  others=$(others_of "$pid")
  same "ranks of $name" "$(echo "$others" | wc -w)" 2
}
first() { echo "$1"; }
second() { echo "$2"; }
start usr1
kill -USR1 "$(second $others)"
tries=0
until grep -q 'SIGUSR1: checkpoint of step' usr1.out || [ $tries -gt 500 ]; do sleep 0.02; tries=$((tries + 1)); done
saved=$(sed -n 's/^SIGUSR1: checkpoint of step \([0-9]*\) saved$/\1/p' usr1.out)
[ -e "usr1/step-$saved/trainer.txt" ] || fail "SIGUSR1 to rank 2: no checkpoint of step '$saved'"
kill -TERM "$(first $others)"
wait $waiting
same 'exit code after SIGTERM to rank 1' $? 143
expect 0 '^stopped by signal 15 after step [0-9]*; checkpoint: usr1/step-' cat usr1.out
same 'left running' "$(alive $pid $others)" ''

# --- faults ---
start killed --rank-timeout 20
kill -9 "$(second $others)"
wait $waiting
same 'exit code after rank 2 was killed' $? 1
expect 0 '^error: rank 2 was lost: it ended, or .*: killed by signal 9$' cat killed.out
errors 'a killed rank' 1
same 'left running' "$(alive $pid $others)" ''
start first_killed --rank-timeout 20
kill -9 "$pid"
tries=0
until [ -z "$(alive $others)" ] || [ $tries -gt 500 ]; do sleep 0.02; tries=$((tries + 1)); done
wait $waiting
same 'left running without rank 0' "$(alive $others)" ''
expect 0 '^error: rank 1: rank 0 was lost: it ended, or ' cat first_killed.out
says '^error: rank 2: rank 0 was lost: it ended, or '
start stalled --rank-timeout 5
kill -STOP "$(first $others)"
wait $waiting
same 'exit code after rank 1 was stopped' $? 1
expect 0 '^error: rank 1 has not answered for 5 seconds (--rank-timeout)$' cat stalled.out
errors 'a stopped rank' 1
same 'left running' "$(alive $pid $others)" ''
step=$("$sums" train --data data --out killed --resume --steps 1 2>&1 | sed -n 's/.*holds no checkpoint.*/none/p')
same 'a run without a checkpoint' "$step" none

# --- ranks that somebody else starts, by options or by variables ---
each() { # RANKS COMMAND..: starts that many with RANK set, rank 0 last; output and exit codes of all
  ranks=$1 rank=$1
  shift
  pids=
  : > others.out
  while [ $rank -gt 1 ]; do
    rank=$((rank - 1))
    env R=$rank sh -c "$*" >> others.out 2>&1 &
    pids="$pids $!"
  done
  env R=0 sh -c "$*" > output 2>&1
  codes=$?
  for p in $pids; do wait $p; codes="$codes $?"; done
  cat others.out >> output
}
port=$("$bin/free_port")
each 3 "timeout 200 $sums train --data data --out by_options --ranks 3 --rank \$R --master 127.0.0.1:$port --quiet"
same 'by options' "$codes$(cat output)" '0 0 0'
same 'weights by options' "$(hash_of by_options/step-8)" "$(hash_of one/step-8)"
port=$("$bin/free_port")
each 3 "RANK=\$R LOCAL_RANK=\$R WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$port PMI_RANK=7 timeout 200 $sums train --data data --out torchrun --quiet"
same 'as torchrun does' "$codes$(cat output)" '0 0 0'
port=$("$bin/free_port")
each 2 "OMPI_COMM_WORLD_RANK=\$R OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=$port timeout 200 $sums train --data data --out openmpi --quiet"
same 'as Open MPI does' "$codes$(cat output)" '0 0'
port=$("$bin/free_port")
each 2 "PMI_RANK=\$R PMI_SIZE=2 timeout 200 $sums train --data data --out mpich --quiet --master localhost:$port"
same 'as PMI does' "$codes$(cat output)" '0 0'
port=$("$bin/free_port")
each 2 "SLURM_STEP_ID=0 SLURM_PROCID=\$R SLURM_NTASKS=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 200 $sums train --data data --out slurm --quiet"
same 'as srun does' "$codes$(cat output)" '0 0'
silent env SLURM_PROCID=0 SLURM_NTASKS=2 timeout 200 $sums train --data data --out slurm_batch --quiet
silent env SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=2 timeout 200 $sums train --data data --out slurm_shell --quiet
silent env RANK=1 WORLD_SIZE=2 timeout 200 $sums train --data data --out alone --quiet --ranks 1
wrong() { train 2 "$@"; errors 'wrong variables' 1; } # PATTERN COMMAND..
wrong '^error: the variable RANK of torchrun is set, but not WORLD_SIZE, MASTER_ADDR, MASTER_PORT: set all' env RANK=1 $sums train --out no
wrong '^error: the variable WORLD_SIZE of torchrun is set, but not RANK: ' \
  env WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port $sums train --out no
wrong '^error: the variable OMPI_COMM_WORLD_SIZE of Open MPI is set, but not OMPI_COMM_WORLD_RANK: ' env OMPI_COMM_WORLD_SIZE=2 $sums train --out no
wrong '^error: SLURM gives rank 1 of 2, but not where rank 0 is: set MASTER_ADDR and MASTER_PORT, or give --master HOST:PORT$' \
  env SLURM_STEP_ID=1 SLURM_PROCID=1 SLURM_NTASKS=2 $sums train --out no
wrong "^error: the variable RANK is '2', which is no whole number from 0 to 1$" \
  env RANK=2 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port $sums train --out no
wrong "^error: the variable MASTER_PORT is '70000', which is" env RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=70000 $sums train --out no
wrong '^error: a rank that is started by hand needs --rank, --ranks and --master, and --ranks is missing' $sums train --out no --rank 1
wrong 'and --master is missing' $sums train --out no --rank 1 --ranks 2
wrong '^error: --rank 2 is not below --ranks 2' $sums train --out no --rank 2 --ranks 2 --master localhost:$port
wrong "^error: option --master is HOST:PORT, such as node1:29500, not 'localhost'" $sums train --out no --rank 1 --ranks 2 --master localhost
wrong '^error: option --master needs a launcher' $sums train --out no --master localhost:$port
wrong '^error: option --ranks is at most 1024' $sums train --out no --ranks 2000
[ -e no ] && fail 'wrong variables left a folder'

# --- ranks that don't come, are strangers, or differ ---
train 1 '^error: ranks 1 and 2 of 3 didn.t come to 127.0.0.1:[0-9]* within 1 seconds (--rank-timeout)$' \
  $sums train --data data --out no --ranks 3 --rank 0 --master 127.0.0.1:$("$bin/free_port") --rank-timeout 1
train 1 '^error: rank 1: cannot reach rank 0 at 127.0.0.1:[0-9]* within 1 seconds (--rank-timeout): Connection refused$' \
  $sums train --data data --out no --ranks 3 --rank 1 --master 127.0.0.1:$("$bin/free_port") --rank-timeout 1
train 1 "^error: rank 1: cannot find the machine 'nobody.invalid' of rank 0: " \
  $sums train --data data --out no --ranks 2 --rank 1 --master nobody.invalid:$port --rank-timeout 1
[ -e no ] && fail 'ranks that did not come left a folder'
timeout 200 $sums train --data data --out no --ranks 2 --rank 0 --master 127.0.0.1:$("$bin/free_port") > waits.out 2>&1 &
waiting=$!
pid=
until [ -n "$pid" ]; do pid=$(others_of $waiting); done
sleep 0.3
kill -INT $pid
wait $waiting
same 'exit code after SIGINT to a rank that waits' "$? $(cat waits.out)" '1 error: stopped by signal 2 before all ranks had come'
differs() { # WHAT PATTERN COMMAND-OF-RANK-1: rank 0 is usual
  port=$("$bin/free_port")
  timeout 200 $3 --ranks 2 --rank 1 --master 127.0.0.1:$port --rank-timeout 20 > other.out 2>&1 &
  other=$!
  train 1 "$2" $sums train --data data --out differs.run --ranks 2 --rank 0 --master 127.0.0.1:$port --rank-timeout 20
  errors "rank 0, $1" 1
  wait $other
  same "exit code of rank 1, $1" "$? $(cat other.out)" '1 '
  ls -d differs.run/step-* > listed 2>&1 && fail "$1: $(cat listed)"
  rm -rf differs.run
}
differs 'another program' '^error: rank 1 runs another program than rank 0 (hash 0*77, here is 0*1234)$' "$bin/fake_sums_hash train --data data --out no"
differs 'another seed' '^error: rank 1 differs from rank 0: seed is 2 there, and 1 here$' "$sums train --data data --out no --seed 2"
differs 'another rate' '^error: rank 1 differs from rank 0: run.rate is 0.25 there, and 0.5 here$' "$sums train --data data --out no --set rate=0.25"
differs 'more steps' '^error: rank 1 differs from rank 0: number of steps is 5 there, and 12 here$' "$sums train --data data --out no --steps 5"
differs 'less data' '^error: rank 1 differs from rank 0: number of training examples is 10 there, and 83 here$' "$sums train --data ten --out no"
cp -r data changed && "$bin/break_file" data/train-images-idx3-ubyte changed/train-images-idx3-ubyte flip 3001
differs 'other data' '^error: rank 1 differs from rank 0: training data (hash) is [0-9a-f]* there, and [0-9a-f]* here$' "$sums train --data changed --out no"
# the error is where it arises: that rank says it, and the other is silent
port=$("$bin/free_port")
timeout 200 $sums train --data nowhere --out no --ranks 2 --rank 1 --master 127.0.0.1:$port > other.out 2>&1 &
other=$!
timeout 200 $sums train --data data --out differs.run --ranks 2 --rank 0 --master 127.0.0.1:$port > output 2>&1
same 'rank 0 with another that has no data' "$? $(cat output)" '1 '
wait $other
same 'exit code of a rank without data' $? 1
expect 0 '^error: rank 1: ' cat other.out
train 1 '^error: ' $sums train --data nowhere --out no --ranks 3
errors 'no data anywhere' 1
train 1 '^error: \(rank 1: \)*2 ranks add up gradients, and this program was compiled without: write `accumulate = 1;` into its train block$' \
  $fake train --data data --out no --ranks 2
errors 'a program compiled without' 1
finish
