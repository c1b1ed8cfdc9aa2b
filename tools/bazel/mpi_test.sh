#!/usr/bin/env bash
# mpi_test.sh MPIRUN RANKS PROGRAM [CASES...]: runs a test on that many ranks of this machine. With the
# names of cases, runs these with ranks held back (tests/delays.h), for one seed or, exhaustively, for
# several. A test that hangs is ended a little before Bazel's own limit, so that the log says what hung.
set -euo pipefail

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# Sockets of mpirun lie there, and their names are short of room.
export TMPDIR=/tmp

seconds=$((${TEST_TIMEOUT:-300} - 10))
run() {
  local status=0
  timeout --kill-after=5 $((seconds - SECONDS)) "$@" || status=$?
  if ((status == 124 || status == 137)); then echo "the test hung and was ended" >&2; fi
  return "$status"
}

launch=("$1" -n "$2" "$3")
shift 3
if (($# == 0)); then
  run "${launch[@]}"
else
  failed=0
  cases=$(printf '%s,' "$@")
  [[ $cases != '*,' ]] || cases='~[.],' # hidden cases are for others to start
  seeds=(1)
  [[ -z ${LADDER_EXHAUSTIVE-} ]] || seeds=(1 2 3)
  for seed in "${seeds[@]}"; do
    echo "delays of seed $seed"
    log=$(run "${launch[@]}" --delays "$seed" "${cases%,}" 2>&1) || failed=$?
    printf '%s\n' "$log"
    [[ $log != *"No test cases matched"* ]] || failed=1
    ((failed == 0)) || exit "$failed"
  done
fi
