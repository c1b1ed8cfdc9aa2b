#!/usr/bin/env bash
# prove.sh SETTINGS MPIRUN PROGRAM [SOURCE EDITED...]: runs the test case that has to catch a planted
# bug. Succeeds when the case fails as the settings say (zoo.bzl), and when each EDITED file differs
# from SOURCE: an edit whose old text is no longer there plants nothing.
set -euo pipefail

settings=$1 mpirun=$2 program=$3
source=${4-}
# shellcheck disable=SC1090
. "$settings"
for edited in "${@:5}"; do
  if cmp -s "$source" "$edited"; then
    echo "$edited: an edit of zoo/BUILD finds nothing to replace in $source"
    exit 1
  fi
done

# A case that ends does so in a few seconds, or in half a minute where all cores are busy. Sanitizers
# may take all the time there is.
limit=$((${TEST_TIMEOUT:-300} - 20))
if [[ -n $hangs ]]; then limit=60; fi
# A sample of what the case tries might not have the one that fails.
export OMP_NUM_THREADS=1 TMPDIR=/tmp LADDER_EXHAUSTIVE=1
launch=("$program")
if ((test_ranks > 1)); then launch=("$mpirun" -n "$test_ranks" "$program"); fi
status=0
# To Catch2 a comma separates two names, unless it is escaped.
output=$(env "${environment[@]}" timeout --kill-after=5 "$limit" "${launch[@]}" \
  "${case//,/\\,}" 2>&1) || status=$?
# Ranks that are ended because another one has failed say so too, which is nothing new.
awk '{block = block $0 "\n"}
  /^1 failed, the other ranks were ended/ {if (block !~ /SIGTERM/) printf "%s", block; block = ""}
  END {printf "%s", block}' <<<"$output"

echo "--- $test, \"$case\""
if ((status == 124 || status == 137)); then
  if [[ -n $hangs ]]; then echo "caught: the case hangs and was ended after $limit s" && exit 0; fi
  echo "not caught as it should be: the case hangs" && exit 1
elif ((status == 0)); then
  echo "not caught: the case passes" && exit 1
elif [[ -n $hangs ]]; then
  echo "not caught as it should be: the case fails, but does not hang" && exit 1
elif [[ $output != *"$expect"* ]]; then
  echo "not caught as it should be: the case fails, but does not say \"$expect\"" && exit 1
fi
echo "caught: the case fails and says \"$expect\""
