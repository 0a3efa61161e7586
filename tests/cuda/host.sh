# host.sh BIN SCRATCH - the host's side of trainers for a GPU, on the emulated driver: what is missing or too small is one line, and what is
# trained is what the trainer for the processor learns. CPU: a trainer of the same model for the processor.
. "$(dirname "$0")/../runtime/common.sh"
gpu=$bin/fake_device cpu=$bin/../runtime/fake
mkdir data && "$bin/../runtime/make_idx" data 83 21 4 3
[ -x $cpu ] || { echo "SKIPPED: no trainer for the processor"; exit 0; }

# --- without a driver, with one that is too old, without a device: one line, exit status 1, nothing written ---
one_line() {
  [ "$(wc -l < output)" = 1 ] || fail "more than one line: $(cat output)"
  [ -z "$(ls -A none 2> /dev/null)" ] || fail 'something was written'
}
expect 1 "^error: this program trains on an NVIDIA GPU, and the driver's library can't be opened: libcuda.so.1" $gpu train --data data --out none
one_line
expect 0 'device      none that this program can run on here: .*libcuda.so.1' $gpu info
expect 0 '^plan of fake$' $gpu info --plan
expect 0 'Apache License' $gpu licenses
grep -q musl output && fail 'the licenses name musl, which is not inside'
LD_LIBRARY_PATH=$bin/emulator BLU_EMULATOR_TWINS=$bin/twins
export LD_LIBRARY_PATH BLU_EMULATOR_TWINS
expect 1 '^error: the NVIDIA driver is too old: it knows CUDA up to 11.8, and this program needs 12.0 or newer$' env BLU_EMULATOR_DRIVER=11080 $gpu train --data data --out none
one_line
expect 1 '^error: this program trains on an NVIDIA GPU, and the driver finds none' env BLU_EMULATOR_DEVICES=0 $gpu train --data data --out none
one_line
expect 1 '^error: there is no device 3 here: the NVIDIA driver shows this process 2, from 0' env BLU_EMULATOR_DEVICES=2 $gpu train --data data --out none --device 3
expect 1 '^error: this program has no code for device 0 (emulated GPU 0, sm_75); it has: PTX for sm_80 and newer$' env BLU_EMULATOR_ARCH=75 $gpu train --data data --out none
expect 1 '^error: this program has no code for device 0 (emulated GPU 0, sm_86); it has: sm_90$' env BLU_EMULATOR_ARCH=86 $bin/fake_device_90 train --data data --out none
expect 1 '^error: this program needs [0-9]* bytes of the device.s memory ([0-9]* for its arena), but only 1000000 of 1000000 are free on device 0 (emulated GPU 0)$' \
  env BLU_EMULATOR_MEMORY=1000000 $gpu train --data data --out none
mkdir only_driver && cp $bin/emulator/libcuda.so.1 only_driver
# (a real cublasLt, where the system has one, has nothing to say to the emulator)
expect 1 "^error: \(this program computes matrix products with NVIDIA's cublasLt, and neither libcublasLt.so.13 nor libcublasLt.so.12 can be opened\|cublasLt can't start\)" \
  env LD_LIBRARY_PATH=only_driver $gpu train --data data --out none
expect 2 'option --device: this program was compiled for the processor alone' $cpu train --data data --out none --device 0
[ -z "$(ls -A none 2> /dev/null)" ] || fail 'something was written'

# --- info ---
expect 0 '^device      1: emulated GPU 1, sm_90, 4294967296 of 4294967296 bytes free; the driver knows CUDA up to 13.0$' env BLU_EMULATOR_DEVICES=2 $gpu info --device 1
says '^images      PTX for sm_80 and newer$'
says '^  workspace of cublasLt              33554432$'
says '^  next batch                              576$'
says '^  batch                                  4096, whole pages$'

# --- the same training, by the processor and by the emulated GPU ---
metrics() { sed 's/,"time":[^}]*//' $1/metrics.jsonl; }
# same_metrics A B: the same lines, numbers apart by less than 1e-4 of their size
same_metrics() {
  metrics $1 > a; metrics $2 > b
  [ -s a ] && [ "$(wc -l < a)" = "$(wc -l < b)" ] || fail "$1 and $2 have other lines"
  paste -d '\n' a b | tr -d '{}' | awk -F '[,:]' 'NR % 2 { for (i = 1; i <= NF; i++) x[i] = $i; n = NF; next }
    { if (NF != n) { print "other fields:", $0; bad = 1 }
      for (i = 1; i <= NF; i++) if (x[i] != $i) { d = x[i] - $i; if (d < 0) d = -d; s = x[i] < 0 ? -x[i] : x[i]
        if (!(s > 0) || !(d <= 1e-4 * s)) { print "other:", x[i], $i; bad = 1 } } }
    END { exit bad }' || fail "$1 and $2 learn differently"
}
expect 0 '^done: step 22' $cpu train --data data --out cpu --log-every 1
for seed in 0 1 2 3; do
  expect 0 '^done: step 22' env BLU_EMULATOR_SEED=$seed $gpu train --data data --out gpu$seed --log-every 1
  same_metrics cpu gpu$seed
  cmp -s gpu$seed/step-22/model.safetensors gpu0/step-22/model.safetensors || fail "seed $seed of the emulator gives other bits"
done
for threads in 1 3; do
  expect 0 '^done: step 22' $gpu train --data data --out threads$threads --threads $threads
  cmp -s threads$threads/step-22/model.safetensors gpu0/step-22/model.safetensors || fail "$threads threads give other bits"
done
expect 0 '^device.name=emulated GPU 0$' cat gpu1/step-22/trainer.txt
says '^device.arch=sm_90$'
says '^device.products=[0-9a-f]*$'
expect 0 '^ *[0-9.]*% .* update *' $gpu train --data data --out profiled --steps 3 --profile
says '^profile of 3 steps: '
says '^ .* forward  fake.blu:2: forward$'
expect 0 'loss' $gpu eval --data data --out gpu1
expect 0 '^nothing was written$' $gpu train --data data --out dry --dry-run
expect 0 'wrote the parameters' env LD_LIBRARY_PATH= $gpu export --out gpu1 --output gpu1.safetensors
expect 0 'wrote the parameters' $cpu export --out cpu --output cpu.safetensors
expect 0 'made imported/step-0' $gpu import cpu.safetensors --out imported
cmp -s imported/step-0/model.safetensors cpu/step-22/model.safetensors || fail 'import changes parameters'
"$bin/../runtime/make_idx" data 83 21 4 3
expect 0 '^[0-9-]' $gpu predict data/t10k-images-idx3-ubyte --out gpu1
[ "$(wc -l < output)" -ge 21 ] || fail 'predict gives too few rows'

# --- places that are dead, poisoned: no difference; poisoned too early: NaN, and to the emulator a read of what nobody has written ---
expect 0 '^done: step 22' env BLU_EMULATOR_POISON=1 $bin/fake_device_poison train --data data --out poisoned
cmp -s poisoned/step-22/model.safetensors gpu0/step-22/model.safetensors || fail 'poison gives other bits'
expect 1 "step 1: the gradient of 'fc.bias' is not finite" $bin/fake_device_early train --data data --out early
expect 1 '^emulated: fault in function squares, .*: it reads byte [0-9]* of [0-9]* of global memory, which nobody has written' \
  env BLU_EMULATOR_POISON=1 $bin/fake_device_early train --data data --out early2

# --- a run in parts is the run that was never stopped; and each continues what the other has begun ---
expect 0 'step 7' $gpu train --data data --out parts --steps 7 --log-every 1
expect 0 'step 20' $gpu train --data data --out parts --steps 20 --resume --log-every 1
expect 0 'done: step 22' $gpu train --data data --out parts --resume --steps 22
cmp -s parts/step-22/model.safetensors gpu0/step-22/model.safetensors || fail 'a resumed run gives other bits'
expect 0 'warning: the checkpoint was made on another device.* device.arch sm_90 -> sm_80' env BLU_EMULATOR_ARCH=80 $gpu train --data data --out gpu2 --resume --steps 23
expect 0 'step 11' $cpu train --data data --out mixed --steps 11 --log-every 1
expect 0 'warning: the checkpoint was made by another program' $gpu train --data data --out mixed --resume --steps 16 --log-every 1
expect 0 'done: step 22' $cpu train --data data --out mixed --resume --steps 22 --log-every 1
same_metrics cpu mixed

# --- what a NaN may do is what it may do on the processor ---
for trainer in cpu gpu; do
  eval "command=\$$trainer"
  expect 1 "step 5: the gradient of 'fc.weight' is not finite (its sum of squares is nan); parameters are left as they were" \
    $command train --data data --out nan_$trainer --set poison=4 --save-every 4
  expect 0 'step 5: the gradient .*; the step is left out' $command train --data data --out skip_$trainer --set poison=4 --nan skip --log-every 1
  expect 0 'loss_spike\|standard deviations above' $command train --data data --out spike_$trainer --set spike=40 --epochs 5
done
same_metrics skip_cpu skip_gpu
expect 0 'done: step 4' $gpu train --data data --out four --steps 4
cmp -s nan_gpu/step-4/model.safetensors four/step-4/model.safetensors || fail 'the checkpoint before the NaN has other parameters'
finish
