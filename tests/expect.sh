# Sourced by tests of tools.
# shellcheck shell=bash

# expect STATUS TEXT COMMAND...: ends the test unless the command ends with the status and says TEXT,
# among other things.
expect() {
  local status=0 out
  out=$("${@:3}" 2>&1 </dev/null) || status=$?
  if ((status != $1)) || [[ $out != *"$2"* ]]; then
    echo "'${*:3}': status $status, expected $1; said:"
    echo "$out"
    echo "and not: $2"
    exit 1
  fi
}
