#!/usr/bin/env bash
# The kernels for AVX-512 share no code with a program's other parts, and nothing of them runs by
# itself when a program starts: a CPU without AVX-512 could run neither.
set -euo pipefail

library=kernels/v4.a
if shared=$(nm --defined-only --extern-only --format=posix "$library" | grep -E ' [TWV] ' | grep -v '\.v4 '); then
  echo "functions that other parts of a program may be given: $shared"
  exit 1
fi
if readelf --section-headers --wide "$library" | grep -E '\.(init_array|ctors)'; then
  echo "a file of $library has code that runs at the start of a program"
  exit 1
fi
(($(grep -c '^\.quad _ZN6ladder3cpu' kernels/v4_table.S) >= 50))
