#!/usr/bin/env bash
# tools/site says what is missing, and what it does not understand; then the functions that make the
# site (site_test.py).
set -euo pipefail

# expect TEXT COMMAND...: ends with status 2 and says so, before it builds anything.
expect() {
  local status=0 out
  out=$("${@:2}" 2>&1) || status=$?
  if ((status != 2)) || [[ $out != *"$1"* ]]; then
    echo "'${*:2}': status $status, expected 2 and: $1; said:"
    echo "$out"
    exit 1
  fi
}

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/tools" "$TEST_TMPDIR/path"
cp tools/site "$tree/tools"
for program in bash dirname readlink sed; do
  ln -s "$(command -v $program)" "$TEST_TMPDIR/path/$program"
done
printf '#!/bin/sh\nexit 1\n' >"$TEST_TMPDIR/path/python3"
chmod +x "$TEST_TMPDIR/path/python3"
expect "missing are cmark-gfm" env PATH="$TEST_TMPDIR/path" "$tree/tools/site"
expect "chromium; tools/setup --site installs" env PATH="$TEST_TMPDIR/path" "$tree/tools/site" --check
expect "no flag '--chek'" "$tree/tools/site" --chek
expect "--output needs a value" "$tree/tools/site" --output
[[ ! -e $tree/out ]]

if ! command -v cmark-gfm >/dev/null || ! python3 -c 'import pygments' 2>/dev/null; then
  echo "skipped: the site's functions, without cmark-gfm and python3-pygments (tools/setup --site)"
  exit
fi
command -v chromium >/dev/null || echo "skipped: what the site's checker sees, without chromium (tools/setup --site)"
python3 tests/tools/publish/site_test.py
