#!/usr/bin/env bash
# tools/test with a Bazel that only says what compilers would: --all fails for their warnings, also
# where everything else is well, and the last line stays the last, also after a signal, which ends Bazel. So it
# fails for the site, which is skipped by name where it cannot be made.
set -euo pipefail

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/tools/programs" "$tree/path"
cp tools/test "$tree/tools"
cp tools/programs/scratch.sh "$tree/tools/programs"
printf '#!/bin/sh\n[ "$1" != --site ] || [ -z "$NO_SITE" ]\n' >"$tree/tools/setup"
printf '#!/bin/sh\n[ -z "$BAD_SITE" ]\n' >"$tree/tools/site"
printf '#!/bin/sh\ncase $1 in query) echo //x ;; build) echo "$SAID" >&2 ;; esac\n' >"$tree/path/bazel"
printf '[ "$1" != "$LASTS" ] || { echo $$ >"$0.runs"; trap "sleep 0.2; rm $0.runs; exit 8" TERM; while true; do sleep 0.1; done; }' >>"$tree/path/bazel"
chmod +x "$tree"/{tools/{setup,site},path/bazel}
export PATH=$tree/path:$PATH

# expect STATUS WARNING [FLAG]: how tools/test ends where a compiler says so.
expect() {
  local status=0 out passed=0
  if [[ "${3-}" == --all && -z ${NO_SITE-}${BAD_SITE-} ]]; then passed=1; fi # the site
  out=$(SAID=$2 "$tree/tools/test" "${@:3}" 2>/dev/null) || status=$?
  if ((status != $1)) || [[ $out != *"$passed passed, $1 failed" || $out != *"${SKIPPED-}"* ]]; then
    echo "'$2' with flags '${*:3}': status $status, expected $1; said:"
    echo "$out"
    exit 1
  fi
}

expect 0 "all is well" --all
expect 0 "WARNING: of Bazel's own" --all
expect 1 "a/b.cc:3:4: warning: unused variable 'x' [-Wunused-variable]" --all
expect 1 "a/b.cu(12): warning #177-D: variable was declared but never referenced" --all
expect 1 "ptxas warning : Registers are spilled" --all
expect 0 "a/b.cc:3:4: warning: unused variable 'x' [-Wunused-variable]"
BAD_SITE=yes expect 1 "all is well" --all
NO_SITE=yes SKIPPED="skipped 1 times: the site in a browser" expect 0 "all is well" --all

# Whatever Bazel does then, and whoever reads what it says.
for lasts in query build test; do
  for flag in --all --zoo //x; do
    case $flag:$lasts in --all:query | --zoo:build | //x:query | //x:build) continue ;; esac
    for signal in HUP INT TERM; do
      env --default-signal=INT LASTS=$lasts SAID=x "$tree/tools/test" $flag >"$TEST_TMPDIR/out" 2>/dev/null &
      until [[ -s $tree/path/bazel.runs ]]; do sleep 0.05; done
      bazel=$(<"$tree/path/bazel.runs") status=0
      kill -s $signal $!
      wait $! || status=$?
      if ((status != 128 + $(kill -l $signal))) || [[ -e $tree/path/bazel.runs ]] || kill -0 "$bazel" 2>/dev/null ||
        [[ $(tail -n 1 "$TEST_TMPDIR/out") != "0 passed, 1 failed" ]] || ! grep -qx "ended by SIG$signal" "$TEST_TMPDIR/out"; then
        echo "SIG$signal during bazel $lasts with $flag: status $status; said:"
        cat "$TEST_TMPDIR/out"
        exit 1
      fi
    done
  done
done
