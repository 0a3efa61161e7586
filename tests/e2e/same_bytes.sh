# same_bytes.sh - the same source and compiler give the same bytes: in another folder, by another path, under another name.
. "$(dirname "$0")/common.sh"
mkdir a b
for model in "$top"/models/*.blu; do
  name=$(basename "$model")
  cp "$model" a && cp "$model" b
  (cd a && "$bluc" "$name" -o one) || fail "$name: bluc failed"
  (cd / && env LANG=C TZ=Asia/Tokyo "$bluc" "$work/b/$name" -o "$work/b/another") || fail "$name: bluc failed in another folder"
  cmp a/one b/another || fail "$name: different bytes"
  [ "$name" = softmax.blu ] || continue
  sum=$(sha256sum < a/one)
  (cd a && "$bluc" --emit program "$name" -o one) || fail "$name: over an older trainer"
  same "$name over an older trainer" "$(sha256sum < a/one)" "$sum"
  # and the comparison can fail
  (cd b && "$bluc" -D B=64 "$name" -o other) || fail "$name: -D B=64"
  different "$name with another batch" "$(sha256sum < b/other)" "$sum"
done
finish
