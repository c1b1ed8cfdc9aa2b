# shellcheck shell=bash
# What tools/mpirun and tools/machines/launch/daemon have in common: Open MPI's files on a host, and a guard, which
# outlives the script that sources this. Both end in begin_session and end_session.

: "${launch:?is the folder of this file}"

# begin_session GRACE NAME TEMPORARY RANKS: creates `folder` in TEMPORARY, and `shared`, which is
# /dev/shm/NAME (NAME defaults to the folder's name), where RANKS ranks share memory. Write the pid of the
# session leader to descriptor 4. When this script ends or calls end_session, a guard asks the session to
# stop, kills what is left of it after GRACE seconds, and removes both folders. Children of this script must
# not have descriptor 4: they call only_standard.
begin_session() {
  if ! folder=$(mktemp -d "$3/mpirun.XXXXXX" 2>/dev/null); then
    echo "error: host $(uname -n): no folder can be made in ${3@Q}; let TMPDIR name another one, on every host" >&2
    exit 2
  fi
  trap 'rm -rf "$folder"' EXIT
  shared=/dev/shm/${2:-${folder##*/}}
  "$launch/segments" "$shared" "$folder" "$4" || exit
  trap 'rm -rf "$folder" "$shared"' EXIT
  mkfifo "$folder/life"
  # shellcheck disable=SC2094 # both ends of a pipe
  exec 4<>"$folder/life" 5<"$folder/life"
  # In a session of its own no key and no signal to all of this script's group reaches it.
  { only_standard && exec setsid "$launch/guard" "$1" "$folder" "$shared"; } <&5 >/dev/null &
  guard=$!
  exec 5<&-
  trap end_session EXIT
}

# Open MPI makes shell commands of paths, and splits some at blanks. So those that it gets, on all hosts,
# are not below TMPDIR or the clone, which may have any name, but these links.
link_files() {
  ln -s "$folder" "$shared/files"
  ln -s "$launch/agent" "$folder/agent"
}

only_standard() { exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; }

# Returns when the session has ended and its files are gone.
end_session() {
  exec 4>&-
  status_of "$guard" || true
}

# The exit status of a child. A signal may end `wait` before the child ends.
status_of() {
  local status
  while true; do
    status=0
    wait "$1" 2>/dev/null || status=$?
    if ((status <= 128)) || ! kill -0 "$1" 2>/dev/null; then return "$status"; fi
  done
}
