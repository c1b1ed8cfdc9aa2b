#!/usr/bin/env bash
# v4_names.sh LIBRARY RENAMED TABLE: copies a library, in which function f becomes f.v4, and writes a
# table of the kernels' bodies: pairs of the addresses of f and f.v4, then a pair of null pointers.
# Variables keep their names, so that one of a header is still one in all of a program. Tables of
# virtual functions, and descriptions of types with them, are renamed like functions; a `catch` still
# matches, as types are compared by what their descriptions say.
set -euo pipefail
names=$(mktemp)
trap 'rm "$names"' EXIT
{
  nm --defined-only --extern-only --format=posix "$1"
  # The linker merges groups of sections by name. That of a constructor's is no function's.
  readelf --section-groups --wide "$1" | sed -nE 's/.*group section.* \[([^]]+)\] .*/\1 group/p'
} | awk 'NF < 2 || done[$1]++ { next } $2 ~ /^[TWV]$|group/ { print $1, $1 ".v4", $2 }' >"$names"
objcopy --redefine-syms=<(cut -d " " -f 1,2 "$names") "$1" "$2"
{
  echo '.section .data.rel.ro, "aw"; .balign 8; .globl ladder_bodies; ladder_bodies:'
  awk '$3 == "T" && $1 ~ /^_ZN6ladder3cpu/ { print ".quad " $1 ", " $2 }' "$names"
  echo '.quad 0, 0; .section .note.GNU-stack, "", @progbits'
} >"$3"
