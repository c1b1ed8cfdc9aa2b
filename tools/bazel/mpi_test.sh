#!/usr/bin/env bash
# mpi_test.sh MPIRUN RANKS PROGRAM: runs a test on that many ranks of this machine. A test that hangs
# is ended a little before Bazel's own limit, so that the log says what hung.
set -euo pipefail

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# Sockets of mpirun lie there, and their names are short of room.
export TMPDIR=/tmp

status=0
timeout --kill-after=5 $((${TEST_TIMEOUT:-300} - 10)) "$1" -n "$2" "$3" || status=$?
if ((status == 124 || status == 137)); then echo "the test hung and was ended" >&2; fi
exit "$status"
