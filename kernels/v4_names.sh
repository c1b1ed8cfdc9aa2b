#!/usr/bin/env bash
# v4_names.sh LIBRARY NAMED TABLE: gives each function that a library defines the name NAME.v4, and
# writes a table of the kernels' bodies: pairs of the addresses of NAME and NAME.v4, the last null.
# Data keep their names: a variable of a header is one in all of a program.
set -euo pipefail
names=$(mktemp)
trap 'rm "$names"' EXIT
{
  nm --defined-only --extern-only --format=posix "$1"
  # A constructor's group of sections has a name that no function has.
  readelf --section-groups --wide "$1" | sed -nE 's/.*group section.* \[([^]]+)\] .*/\1 group/p'
} | awk 'NF < 2 || done[$1]++ { next } $2 ~ /^[TWV]$|group/ { print $1, $1 ".v4", $2 }' >"$names"
objcopy --redefine-syms=<(cut -d " " -f 1,2 "$names") "$1" "$2"
{
  echo '.section .data.rel.ro, "aw"; .balign 8; .globl ladder_bodies; ladder_bodies:'
  awk '$3 == "T" && $1 ~ /^_ZN6ladder3cpu/ { print ".quad " $1 ", " $2 }' "$names"
  echo '.quad 0, 0; .section .note.GNU-stack, "", @progbits'
} >"$3"
