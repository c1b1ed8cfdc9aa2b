#!/usr/bin/env bash
# endings_test.sh GRADER MPIRUN FIRST LESSON_17 LESSON...: programs that end with status 0 have done
# nothing for it, whatever the exercise, and an interrupted grader leaves nothing behind.
# shellcheck disable=SC2016 # fake programs are written in single quotes
set -euo pipefail

grader=$1 mpirun=$(realpath "$2") first=$3 lesson_17=$4
shift 4
TMPDIR=$(mktemp -d /tmp/endings.XXXXXX) # sockets of mpirun lie there, and their names are short of room
export TMPDIR TEST_TMPDIR=$TMPDIR LOG=$TMPDIR.log
trap 'rm -rf "$TMPDIR" "$LOG" "$LOG".*' EXIT
failed=0

# Says what is wrong, and all that the grader said.
wrong() {
  printf '%s\n' "$@"
  failed=1
}

# program TEXT: makes a learner's program of a script; prints its path.
program() {
  local path=$LOG.$1
  printf '#!/bin/bash\n%s\n' "$2" >"$path"
  chmod +x "$path"
  printf '%s\n' "$path"
}
learners=("$(program exits 'exit 0')"
  "$(program writes 'mkdir -p dump; for f in dump/step_00000{1,2}.safetensors metrics.jsonl trace.json; do echo {}x >$f; done
echo "peak memory, bytes"; echo "round 1"')")

# One rank is enough for such a program. The lesson's own needs the real ranks.
fake=$(program mpirun '[[ $3 != '"$LOG"'.* ]] || { shift 2; exec "$@"; }; exec '"$mpirun"' "$@"')
for lesson in "$@"; do
  own=${learners[1]} # to compare with
  [[ $lesson != 19_planning ]] || own=${learners[0]}
  [[ $lesson != 17_elastic ]] || own=$lesson_17 # it writes the checkpoint from which the learner goes on
  for learner in "${learners[@]}"; do
    status=0
    out=$("$grader" "$lesson" --mpirun "$fake" --first "$first" --lesson "$own" \
      --learner "$learner" 2>&1) || status=$?
    if ((status != 1)) || [[ ${out##*$'\n'} != "0 of 10 points ("* ]]; then
      wrong "$lesson, ${learner##*.}: status $status, expected 1 and no points:" "$out"
    fi
    [[ $out != *json.exception* && $out != *.cc:[0-9]* ]] || wrong "$lesson: a library speaks:" "$out"
  done
done

# Ranks that hang, and a Ctrl-C: no process and no folder stays.
hanging=$(program hangs 'echo $$ >>"$LOG"; ls "$TMPDIR" >>"$LOG"; while true; do sleep 1; done')
: >"$LOG"
"$grader" 00_collectives --mpirun "$mpirun" --first "$first" --lesson "$first" --learner "$hanging" \
  >"$LOG.out" 2>&1 &
grading=$!
for ((i = 0; i < 600; ++i)); do
  if (($(grep -c '^[0-9]*$' "$LOG") >= 2)); then break; fi
  sleep 0.1
done
kill -TERM "$grading" # not INT, which a shell has its children in the background ignore
status=0
wait "$grading" || status=$?
[[ $status == 143 ]] || wrong "an interrupted grader ends with status $status, expected 143:" "$(cat "$LOG.out")"
left=$(ls "$TMPDIR")
[[ -z $left ]] || wrong "an interrupted grader leaves in its TMPDIR: $left"
folder=$(grep -m 1 '^mpirun\.' "$LOG") || wrong "mpirun has no folder: $(cat "$LOG")"
[[ ! -e /dev/shm/$folder ]] || wrong "an interrupted grader leaves /dev/shm/$folder"
while read -r pid; do
  # mpirun does not wait until the ranks that it has ended are gone.
  for ((i = 0; i < 100; ++i)); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  ! kill -0 "$pid" 2>/dev/null || wrong "an interrupted grader leaves process $pid"
done < <(grep '^[0-9]*$' "$LOG")
exit "$failed"
