#!/usr/bin/env bash
# Draws all pictures of the tree as pixels, as wide as a phone, in light and dark: all text can be
# seen, and stays in the box that common/io/svg.cc reckons with.
set -euo pipefail
if ! command -v rsvg-convert >/dev/null; then
  echo "  skipped: rsvg-convert (librsvg2-bin) is not installed"
  exit 0
fi
tests=$PWD/tests/tree
cd "$(dirname "$(readlink -f WORKSPACE)")"
shopt -s nullglob
python3 "$tests/picture_pixels.py" common/io/svg.cc notes/pictures/*.svg lessons/*/*.svg
