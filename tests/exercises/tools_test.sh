#!/usr/bin/env bash
# tools/exercise and tools/grade, in a tree of their own with a Bazel that only says whether it would
# have built: work is never overwritten, and what goes wrong is said.
set -euo pipefail
# shellcheck source=tests/expect.sh
source tests/expect.sh

tree=$TEST_TMPDIR/tree
mkdir -p "$tree"/{notes,tools/course/grader,tools/programs,path,bazel-bin/tools/course/grader/unwritten/08_pipeline_parallel}
cp tools/exercise tools/grade tools/build "$tree/tools"
cp notes/lessons.md "$tree/notes"
cp tools/course/grader/{lessons.sh,exercises.bzl} "$tree/tools/course/grader"
cp tools/programs/*.sh "$tree/tools/programs"
printf '#!/bin/sh\n' >"$tree/tools/setup"
printf '#!/bin/sh\necho "exercises/08/schedules.cc:7:1: error: no semicolon" >&2\n%s\n' \
  '[ ! -e "$0.fails" ] || case "$*" in *tools/course/grader:08*)
  until [ -e "${UNTIL-/}" ]; do sleep 0.1; done; exit 1 ;; esac' >"$tree/path/bazel"
printf '#!/bin/sh\necho "grader $1"; exit 1\n' >"$tree/bazel-bin/tools/course/grader/grader"
chmod +x "$tree"/{tools/setup,path/bazel,bazel-bin/tools/course/grader/grader}
unwritten=$tree/bazel-bin/tools/course/grader/unwritten/08_pipeline_parallel
echo '  fail("make_schedule is not written yet");' >"$unwritten/schedules.cc"
export PATH=$tree/path:$PATH
cd "$tree"

expect 2 "tools/exercise 02" tools/exercise
expect 2 "no exercise is called '77'" tools/exercise 77
expect 2 "no exercise is called 'pipelin'; did you mean 08_pipeline_parallel" tools/exercise pipelin
expect 2 "begins the names of 10 exercises" tools/grade 0
expect 0 "tools/grade 02" tools/grade --help
expect 0 "tools/exercise 02" tools/exercise --help
expect 2 "make it with tools/exercise 08" tools/grade 08
expect 0 "02_ddp                         2 h" tools/exercise list
[[ -z $({ tools/exercise list | true; } 2>&1) ]] # nobody reads it: no complaint about a lesson

expect 0 "  make_schedule" tools/exercise 08
expect 0 "Time: about 1 h." tools/exercise 08
cmp "$unwritten/schedules.cc" exercises/08_pipeline_parallel/schedules.cc
echo "hours of work" >exercises/08_pipeline_parallel/schedules.cc
expect 0 "is there already and stays as it is" tools/exercise 08
[[ $(cat exercises/08_pipeline_parallel/schedules.cc) == "hours of work" ]]
expect 0 "08_pipeline_parallel           1 h  begun" tools/exercise list

expect 1 "grader 08_pipeline_parallel" tools/grade 08
mkdir exercises/02_ddp && touch exercises/02_ddp/buckets.cc
expect 2 "there is no exercises/02_ddp/mpi_messages.cc; make it with tools/exercise 02" tools/grade 02
touch path/bazel.fails
expect 1 "schedules.cc:7:1: error: no semicolon" tools/grade 08
expect 1 "0 of 10 points: the lesson does not build with your files" tools/grade 08
# A long build says that it goes on, while it does.
UNTIL=seen tools/grade 08 &>late &
until [[ $(tail -n 1 late) == "build: //tools/course/grader:08"* ]]; do sleep 0.1; done
touch seen
wait $! && false || (($? == 1))
[[ $(<late) == "building"*$'\nexercises/08/schedules.cc:7:1: error:'* ]]

# Without a terminal a build says what it does, unless that is done within a moment.
rm path/bazel.fails
printf '#!/bin/sh\n' >path/bazel
[[ -z $(tools/build //a //b 2>&1) ]]
printf '#!/bin/sh\nsleep 3\n' >path/bazel
expect 0 "build: //a //b (the first time takes minutes)" tools/build //a //b
