#!/bin/sh
# run.sh BLU_FUZZ SECONDS [FOLDER]: fuzzes the front end; the corpus starts as every .blu file of the repository and grows in
# FOLDER (default: fuzz-corpus), which a later run goes on with. What fails is written there too, as crash-* or timeout-*.
fuzz=$(realpath "$1") seconds=$2 folder=${3:-fuzz-corpus}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$folder" && cd "$folder" || exit 2
mkdir -p corpus
find "$here/../../.." -name '*.blu' ! -path '*/build*' | while read -r file; do
  cp "$file" "corpus/$(cksum < "$file" | tr -d ' ').blu"
done
exec "$fuzz" -dict="$here/blu.dict" -max_len=4096 -timeout=60 -rss_limit_mb=3000 -max_total_time="$seconds" corpus
