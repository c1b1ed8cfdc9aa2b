#!/usr/bin/env bash
# //kernels:versions: what it counts of shapes in which that can be done by hand, and what it refuses.
set -euo pipefail
source tests/expect.sh
program=$1

run() { "$program" --product 64x128x64 --attention 1x64x1x32 "$@"; }

# is VERSION COLUMN TEXT: what the first table says of a version.
is() {
  local found
  found=$(awk -v version="$1:" -v column="$2" '$0 ~ version { print $column; exit }' "$TEST_TMPDIR/out")
  [[ $found == "$3" ]] || { cat "$TEST_TMPDIR/out" && echo "$1, column $2: $found, expected $3" && exit 1; }
}

run --gpu h100 >"$TEST_TMPDIR/out"
# A warp of the naive version asks for three sectors of 32 bytes, 64 times, and stores two; it has 64 x 128 / 32
# warps. A tile of 32 x 32 has 64 sectors: 8 thread blocks load four and store one. The other two versions have
# one tile of C: A has 64 rows of 4 sectors, B as many of 8, and so has C. What a warp on tensor cores stores
# at once are 8 half sectors.
is naive 1 1.589
is tiled 1 0.08192
is vectorized 1 0.04096
is mma 1 0.05734
is cuBLAS 1 -
# The formula has 64 x 128 x 64 multiply-adds. Half of the large tiles is empty, and multiplied all the same.
is naive 4 0.001049
is tiled 4 0.001049
is vectorized 4 0.002097
is mma 5 0.002097

expect 2 'version vectorized takes N and K that are multiples of 8, not 100 and 50' \
  "$program" --product 20x100x50
expect 2 'takes heads whose size is a multiple of 1 up to 64, not 80' "$program" --attention 1x8x1x80
expect 2 '--product 8x8: expected positive numbers MxNxK' "$program" --product 8x8
expect 2 '--product 8x8x8x8: expected positive numbers MxNxK' "$program" --product 8x8x8x8
expect 2 '--attention 1x0x8x8: expected positive numbers BxTxNHxHS' "$program" --attention 1x0x8x8
expect 2 '--gpu h9: expected a100 or h100' "$program" --gpu h9
expect 2 '--blocks must be positive' "$program" --blocks 0
