# shellcheck shell=bash
# scratch [-d]: prints the name of a new file, or folder, in TMPDIR. Where none can be made, says so in a line
# and exits with 2. Call it as x=$(scratch): then `set -e` ends the
# script, too.
scratch() {
  mktemp "$@" 2>/dev/null && return
  echo "tools/${0##*/}: nothing can be made in ${TMPDIR:-/tmp}; let TMPDIR name another folder" >&2
  exit 2
}
