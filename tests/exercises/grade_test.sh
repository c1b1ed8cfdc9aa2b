#!/usr/bin/env bash
# grade_test.sh GRADER MPIRUN FIRST LESSON PROGRAM [SOLUTION POINTS]...: grades solutions of one
# exercise, programs each, and compares their points, such as "3 0 2". PROGRAM is the lesson's own.
set -euo pipefail

export TMPDIR=/tmp # sockets of mpirun lie there, and their names are short of room
grader=$1 mpirun=$2 first=$3 lesson=$4 program=$5
shift 5
failed=0
while (($# > 0)); do
  status=0
  out=$("$grader" "$lesson" --mpirun "$mpirun" --first "$first" --lesson "$program" \
    --learner "$1" 2>&1) || status=$?
  points=$(sed -nE '$s/^[0-9]+ of 10 points \((.*)\)$/\1/p' <<<"$out")
  [[ $points =~ 0 ]] && expected=1 || expected=0
  if [[ $points != "$2" ]] || ((status != expected)); then
    echo "${1##*/}: '$points' with status $status, expected '$2':"
    echo "$out"
    failed=1
  fi
  if (($(grep -c "did not end within" <<<"$out") > 1)); then
    echo "${1##*/}: more than one run was waited for that does not end:"
    echo "$out"
    failed=1
  fi
  shift 2
done
exit "$failed"
