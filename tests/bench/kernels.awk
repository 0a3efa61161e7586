# kernels.awk - the rate of each kernel, from its IR (bluc --emit=kernels) and the profile of a run (train --profile), in this order:
#   awk -v peak=GFLOPS -v triad=GBS [-v only=matmul] -f kernels.awk KERNELS PROFILE
# Products count 2 operations a multiply-add; other kernels the bytes of their operands and results, each once.
function bytes(type,   n, part, i, count) { # tensor<3x4xf32>
  gsub(/^tensor<|>.*$/, "", type)
  n = split(type, part, "x")
  count = part[n] ~ /64$/ ? 8 : part[n] ~ /32$/ ? 4 : 1
  for (i = 1; i < n; i++) count *= part[i]
  return count
}
FNR == NR && /func.func private @/ {
  match($0, /@[a-z0-9_]+/)
  name = substr($0, RSTART + 1, RLENGTH - 1)
  rest = $0
  sub(/ attributes .*/, "", rest)
  while (match(rest, /tensor<[^>]*>/)) {
    size[name] += bytes(substr(rest, RSTART, RLENGTH))
    rest = substr(rest, RSTART + RLENGTH)
  }
}
FNR == NR && /= blu.matmul / {
  turned = /ta = true/
  match($0, /: \(tensor<[^>]*>/)
  n = split(substr($0, RSTART + 10, RLENGTH - 11), dim, "x")
  k = dim[turned ? n - 2 : n - 1]
  match($0, /-> tensor<[^>]*>/)
  flops[name] = 2 * k * bytes(substr($0, RSTART + 3, RLENGTH - 3)) / (/-> tensor<[^>]*f64>/ ? 8 : 4)
}
FNR != NR && $1 ~ /^[0-9.]+%$/ && $3 ~ /^[0-9]+$/ {
  ms[$4] += $2
  launches[$4] += $3
}
END {
  for (name in ms) {
    product = name in flops
    if ((only == "matmul") != product || ms[name] <= 0) continue
    rate = (product ? flops[name] : size[name]) * launches[name] / ms[name] / 1e6
    printf "%-44s %5d x %9.3f ms %8.1f %s %6.1f%%\n", name, launches[name], ms[name] / launches[name], rate, product ? "GFLOP/s" : "GB/s   ", \
           100 * rate / (product ? peak : triad) | "sort -k4,4gr"
    time += ms[name]
    work += product ? flops[name] * launches[name] : 0
  }
  close("sort -k4,4gr")
  rate = time > 0 ? work / time / 1e6 : 0
  if (only == "matmul" && time > 0) printf "%-44s %7s %9.3f ms %8.1f GFLOP/s %6.1f%%\n", "all products", "", time, rate, 100 * rate / peak
}
