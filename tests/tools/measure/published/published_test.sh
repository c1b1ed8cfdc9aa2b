#!/usr/bin/env bash
# tools/measure/published: a few rows of each set that has bad layouts come out as notes/published.md has
# them, and a row that cannot be run is named by file and line.
set -euo pipefail
# shellcheck source=tests/expect.sh
source tests/expect.sh

tree=$TEST_TMPDIR/tree
mkdir -p "$tree"/bazel-bin/lessons/{05_zero3,09_3d_parallel} "$tree"/common/cluster "$tree"/notes "$tree"/tests
cp -rL tools "$tree"
chmod -R u+w "$tree"
cp -rL common/cluster/{devices,programs} "$tree/common/cluster"
cp -rL tests/published "$tree/tests"
chmod -R u+w "$tree/tests"
cp -L notes/published.md "$tree/notes"
for lesson in 05_zero3 09_3d_parallel; do
  cp -L "lessons/$lesson/$lesson" "$tree/bazel-bin/lessons/$lesson"
done
# Everything is built, and bubbles are another program's.
for program in tools/build bazel-bin/tools/measure/bubbles/bubbles; do
  mkdir -p "$tree/${program%/*}"
  printf '#!/bin/sh\n' >"$tree/$program"
  chmod +x "$tree/$program"
done
cd "$tree"
report=tools/measure/published

# All rows of all sets can be read.
expect 0 'more GPUs than --largest' $report --largest 0

# keep SET CONDITION: leaves the rows of a set for which the condition is true.
keep() {
  python3 - "$@" <<'END'
import json, pathlib, sys
path = pathlib.Path(f"tests/published/{sys.argv[1]}.json")
values = json.loads(path.read_text())
rows = [row for row in values["rows"] if eval(sys.argv[2], {}, row)]
head = json.dumps({key: value for key, value in values.items() if key != "rows"})
path.write_text(head[:-1] + ',\n"rows": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")
END
}

keep mpt_fsdp 'gpus == 8 and (hidden == 768 or model == "13b" and device == "h100")'
keep bloom 'global_batch == 512'
keep vtrain_multi 'gpus == 64 and micro_batch * data == global_batch'
keep vtrain_single '(layers, hidden, gpus, global_batch) in [(16, 2048, 8, 8), (24, 1024, 8, 8), (20, 2048, 2, 16)]'
rows=0
for set in mpt_fsdp bloom vtrain_multi "--regret vtrain_single"; do
  # shellcheck disable=SC2086 # two words
  $report $set | sed '/^| of these/,/^$/d' >"$TEST_TMPDIR/out" # the kinds are those of all rows
  while read -r line; do
    grep -Fxq -- "$line" notes/published.md || { echo "$set: the notes have no line '$line'" && exit 1; }
    rows=$((rows + 1))
  done < <(grep '^| ' "$TEST_TMPDIR/out")
done
((rows > 26))

# refused TEXT FROM TO: what the report says of vtrain_single if FROM is TO in its last row.
refused() {
  local rows=tests/published/vtrain_single.json
  cp $rows "$TEST_TMPDIR/kept"
  sed -i "$(($(wc -l <$rows) - 1))s/$2/$3/" $rows
  if cmp -s $rows "$TEST_TMPDIR/kept"; then echo "no $2 in $rows" && exit 1; fi
  expect 2 "$rows:$(($(wc -l <$rows) - 1)): $1" $report vtrain_single
  cp "$TEST_TMPDIR/kept" $rows
}

refused 'no micro_batch' '"micro_batch"' '"micro"'
refused 'no seconds' '"seconds"' '"milliseconds"'
refused 'unknown device a9; known are a100-40, ' '{' '{"device": "a9", '
refused 'unknown program megatron' '{' '{"program": "megatron", '
refused 'error: program vtrain: "devices": has a100, not NVIDIA H100' '{' '{"device": "h100", '
refused 'a layout of 4 GPUs on 2' '"data": 2' '"data": 4'
refused 'error: --' '"global_batch": 16' '"global_batch": 15'
expect 2 'no set vtrain; there are recompute_2022, ' $report vtrain
expect 2 'no common/cluster/programs/nothing.json' $report --fit nothing
expect 1 'no row of a set is marked as fitted for it' $report --fit ladder
expect 2 '--write: the notes have whole tables' $report --write --largest 8
