# gpu.sh BLUC CHECKOUT FOLDER BIN - what tests/gpu has for a machine with a GPU: packed small, run on the emulated driver. Its table comes last,
# also where a trainer computes something else, hangs, or the whole is stopped; and where there is no GPU.
bin=$4
. "$(dirname "$0")/../e2e/common.sh"
run 0 "$top/tests/gpu/pack.sh" --smoke "$(dirname "$bluc")/.." packed
export LD_LIBRARY_PATH=$bin/emulator BLU_EMULATOR_TWINS=$work/packed/twins
command=(packed/run.sh --smoke --limit 1500 --python "$work/no-python")

# The rows of the table are the end of the output, each once.
table() { sed -n '/^check  *result$/,$p' out; }
rows() { [ "$(table | grep -cE -e "$1")" = "$2" ] || { fail "not $2 rows '$1':"; table; }; }

run 0 "${command[@]}"
rows '^op: [a-z_]+ +good, apart by' "$(wc -l < packed/ops.txt)"
for name in gpt2_256 perceptron softmax fashion; do
  rows "^losses: $name, [0-9]+ +good, apart by [0-9.e+-]+$" 1
  rows "^step: $name +[0-9.]+ ms$" 1
  rows "^$name +[0-9.]+ +[0-9.]+ +[0-9]+( |\$)" 1
done
rows '^step: gpt2_256, --epilogues +[0-9.]+ ms, 4 of its sums by cublasLt$' 1
rows '^the same bits twice: fashion +good$' 1
rows '^a checkpoint of the processor, and back +good$' 1
rows '^compute-sanitizer: [a-z]+ +SKIPPED' 4
rows '^PyTorch +SKIPPED: .*no-python has no PyTorch' 1
rows FAILED 0
rows 'times below +mean nothing: the device is emulated' 1
run 2 packed/run.sh --parts
run 2 packed/run.sh --limit soon
run 0 packed/run.sh --help

# no GPU
run 0 env -u LD_LIBRARY_PATH "${command[@]}"
if ! ldconfig -p 2> /dev/null | grep 'libcuda\.so\.1' > /dev/null; then says '^trainers on a GPU +SKIPPED: .*libcuda\.so\.1'; fi

# other losses, and a trainer that fails
mv packed/softmax.cpu right
printf '#!/bin/sh\nexec "%s" "$@" --set lr=0.3\n' "$work/right" > packed/softmax.cpu
printf '#!/bin/sh\necho "no such luck" >&2\nexit 3\n' > packed/perceptron.gpu
chmod +x packed/softmax.cpu packed/perceptron.gpu
run 1 "${command[@]}" losses speed
rows '^losses: softmax, 10 +FAILED: apart by' 1
rows '^losses: perceptron, gpu +FAILED: no such luck' 1
rows '^step: perceptron +FAILED: no such luck' 1
rows '^losses: fashion, [0-9]+ +good, apart by [0-9.e+-]+$' 1

# one that hangs, up to the end of the time: what comes behind is skipped. Then once more, and somebody stops it all.
printf '#!/bin/sh\ntouch %s/hangs\nexec sleep 1000\n' "$work" > packed/gpt2_256.gpu
chmod +x packed/gpt2_256.gpu
run 1 packed/run.sh --smoke --limit 40 losses speed
rows '^losses: gpt2_256, gpu +FAILED: it took too long' 1
rows 'SKIPPED: out of time' 7
rm hangs
packed/run.sh --smoke losses > out 2> err < /dev/null &
for _ in $(seq 600); do
  if [ -e hangs ]; then break; fi
  sleep 0.2
done
kill $!
wait $!
same 'exit status when stopped' $? 1
rows '^part losses +FAILED: it was stopped' 1
finish
