#!/usr/bin/env bash
# Every tool says with --help what it is for, and does nothing else; a word that is nearly a lesson, a
# command or a flag brings the right one. Programs that tools build first are stood in for.
set -euo pipefail
# shellcheck source=tests/expect.sh
source tests/expect.sh

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/lessons/02_ddp" "$tree/lessons/03_zero1" "$tree/path"
cp -rL tools "$tree"
touch "$tree/lessons"/{02_ddp,03_zero1}/{BUILD,main.cc}
for program in state/{checkpoints,comparison,inspector} measure/calibrator; do
  program+=/${program##*/}
  mkdir -p "$tree/bazel-bin/tools/${program%/*}"
  # shellcheck disable=SC2016 # it is the program's text
  printf '#!/bin/sh\necho "$0 says $*"\n' >"$tree/bazel-bin/tools/$program"
  chmod +x "$tree/bazel-bin/tools/$program"
done
# No tool may come to do its work.
for program in apt-get clang-format clang-16 mpirun; do
  printf '#!/bin/sh\necho "%s is called" >&2\nexit 1\n' $program >"$tree/path/$program"
done
printf '#!/bin/sh\n' >"$tree/path/bazel"
chmod +x "$tree"/path/*
export PATH=$tree/path:$PATH
cd "$tree"

seen=0
for tool in tools/* tools/measure/*; do
  [[ -f $tool && -x $tool ]] || continue
  seen=$((seen + 1))
  text=$(basename "$tool")
  case $tool in
    tools/plan) continue ;; # all words go to tools/run, and from there to the lesson
    tools/checkpoint | tools/compare | tools/inspect | tools/calibrate) text="says --help" ;;
  esac
  expect 0 "$text" "$tool" --help
  [[ -z $("$tool" --help 2>&1 >/dev/null) ]]
done
((seen > 25))

expect 2 "no lesson is called 'ddp'; did you mean 02_ddp?" tools/run ddp
expect 2 "no lesson is called 'zreo1'; did you mean 03_zero1?" tools/run zreo1
expect 2 "no lesson is called 'lessons/02_ddp/'; did you mean 02_ddp?" tools/run lessons/02_ddp/
expect 2 "no lesson is called '2'; did you mean 02_ddp?" tools/run 2
expect 2 $'no lesson is called \'xyz\'\n' tools/run xyz
expect 2 "'ddp' is no lesson; did you mean 02_ddp?" tools/lesson_diff ddp
expect 2 $'no command \'upp\'; did you mean up?' tools/cluster upp
expect 2 $'no flag \'--bandwith\'; did you mean --bandwidth?' tools/cluster up --bandwith 1gbit
expect 2 $'no flag \'--latncy\'; did you mean --latency?' tools/cluster up --latncy 1ms
expect 2 "there is no command 'lits'; did you mean list?" tools/zoo lits

# A name that is empty, or not there, is none.
expect 2 "say which folder the hosts meet in" tools/machines/launch/serve ''
expect 2 "say which folder the hosts meet in" tools/machines/launch/serve
expect 2 "-n needs a value" tools/cluster up -n
