#!/usr/bin/env bash
# What the interactive pages compute, on the smallest cases: tools/publish/play/check has all others,
# but needs a browser.
set -euo pipefail
# shellcheck source=tests/expect.sh
source tests/expect.sh

ask() { tools/publish/play/native <<<"$*"; }

# Two ranks, each with two parts: 1 is rank 0's value, 2 is rank 1's, 3 their sum.
expect 0 '{"rounds":2,"messages":[],"has":[[1,1],[2,2]]}' ask exchanges ring all_reduce 2 0
expect 0 '"messages":[[1,0,0,1,1],[0,1,1,2,1]],"has":[[3,1],[2,3]]}' ask exchanges ring all_reduce 2 1
expect 0 '"messages":[[1,0,1,2,0],[0,1,0,1,0]],"has":[[3,3],[3,3]]}' ask exchanges ring all_reduce 2 2
expect 0 'round 1\n  rank 0 sends [6 8]' ask words ring all_reduce 2
expect 0 '"name":"ring","rounds":2,"most_sent":1024,' ask costs all_reduce 2 1024 1e-5 1e-10
expect 0 '"positions":[[0,1,6,7],[2,3,4,5]],"pairs":[18,18]' ask attention zigzag 8 2
expect 0 '"run":{"time":9,' ask schedule 1f1b 2 2 1 1 1 1 0
