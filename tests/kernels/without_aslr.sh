#!/usr/bin/env bash
# without_aslr.sh PROGRAM: runs a program that is compiled for the thread sanitizer. GCC 12's finds no
# place for its tables where Linux spreads addresses wider than Debian does (vm.mmap_rnd_bits), so
# they are not spread at all where that is allowed, as it is not in every container.
set -euo pipefail

if setarch --addr-no-randomize true 2>/dev/null; then exec setarch --addr-no-randomize "$@"; fi
exec "$@"
