#!/usr/bin/env bash
# tools/site says what is missing, and what it does not understand; then the functions that make the
# site (site_test.py).
set -euo pipefail
# shellcheck source=tests/expect.sh
source tests/expect.sh

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/tools"
cp tools/site "$tree/tools"
fake() {
  printf '#!/bin/sh\n%s\n' "$2" >"$tree/tools/$1"
  chmod +x "$tree/tools/$1"
}
lacks() { fake setup "echo \"tools/setup: ... Missing, with the names of Debian's packages: $1\" >&2; exit 1"; }
fake build "echo it builds; exit 7"
lacks "wasm-ld-16 (lld-16), chromium (chromium)"
expect 2 "packages: wasm-ld-16 (lld-16). tools/setup --site installs" "$tree/tools/site"
expect 2 "packages: wasm-ld-16 (lld-16), chromium (chromium). tools/setup" "$tree/tools/site" --check
lacks "chromium (chromium)"
expect 2 "packages: chromium (chromium). tools/setup" "$tree/tools/site" --check
expect 7 "it builds" "$tree/tools/site" # without a browser
expect 2 "no flag '--chek'" "$tree/tools/site" --chek
expect 2 "--output needs a value" "$tree/tools/site" --output
[[ ! -e $tree/out ]]

if ! command -v cmark-gfm >/dev/null || ! python3 -c 'import pygments' 2>/dev/null; then
  echo "skipped: the site's functions, without cmark-gfm and python3-pygments (tools/setup --site)"
  exit
fi
command -v chromium >/dev/null || echo "skipped: what the site's checker sees, without chromium (tools/setup --site)"
python3 tests/tools/publish/site_test.py
