# shellcheck shell=bash
# What tools/mpirun and tools/machines/launch/daemon have in common: Open MPI's files on a host, a guard, which
# outlives the script that sources this, and what reaches the ranks. A session is between begin_session and
# end_session.

: "${launch:?is the folder of this file}"
# shellcheck source=tools/machines/launch/limits.sh
source "$launch/limits.sh"

# begin_session GRACE NAME TEMPORARY RANKS: creates `folder` in TEMPORARY, and `shared`, which is
# /dev/shm/NAME, where RANKS ranks share memory. Without NAME, as on a run's first host, it is a name that
# nothing else has. Hosts may see the same TEMPORARY, or the same /dev/shm, as containers do with
# docker --ipc=host: who makes a folder removes it. Write the pid of the session leader to descriptor 4. When
# this script ends or calls end_session, a guard asks the session to stop, kills what is left of it after
# GRACE seconds, and removes both folders. Children of this script must not have descriptor 4: they call
# only_standard.
begin_session() {
  local others
  require_limits "$4"
  # By the same name on all hosts, as far as possible: where they see the same /dev/shm, a link there leads
  # to it (link_files).
  folder=$3/$2
  if [[ -z $2 ]] || ! mkdir -m 700 "$folder" 2>/dev/null; then
    if ! folder=$(mktemp -d "$3/mpirun.XXXXXX" 2>/dev/null); then
      echo "error: host $(uname -n): no folder can be made in ${3@Q}; let TMPDIR name another one, on every host" >&2
      exit 2
    fi
  fi
  trap 'rm -rf "$folder"' EXIT
  shared=/dev/shm/${2:-${folder##*/}}
  others=$("$launch/segments" "$shared" "$folder" "$4" "$2") || exit
  own=("$folder")
  if [[ -z $others ]]; then own+=("$shared"); fi
  trap 'rm -rf "${own[@]}"' EXIT
  mkfifo "$folder/life"
  # shellcheck disable=SC2094 # both ends of a pipe
  exec 4<>"$folder/life" 5<"$folder/life"
  # In a session of its own no key and no signal to all of this script's group reaches it.
  { only_standard && exec setsid "$launch/guard" "$1" "${own[@]}"; } <&5 >/dev/null &
  guard=$!
  exec 5<&-
  trap end_session EXIT
}

# Open MPI makes shell commands of paths, and splits some at blanks. So those that it gets, on all hosts,
# are not below TMPDIR or the clone, which may have any name, but these links.
link_files() {
  # Another host has made it where both see the same /dev/shm. It leads to a folder of this name on this
  # host, or to one that both see.
  ln -sn "$folder" "$shared/files" 2>/dev/null || [[ -d $shared/files ]]
  ln -s "$launch/agent" "$folder/agent"
}

# Signals by which a user or a scheduler ends a run, and which ranks wait for (notes/machines.md). Schedulers
# may send them to all processes of a job. Open MPI would kill its ranks a second later, so it starts with
# these blocked, and ends by SIGINT.
ending=(HUP USR1 TERM)
printf -v list '%s,' "${ending[@]}"
shield=(env "--block-signal=${list%,}")
"${shield[@]}" true 2>/dev/null || shield=(env) # an older one

# tell_ranks SIGNAL LEADER: sends a signal to those processes of ranks in the session of LEADER that wait for
# it, and wakes what is stopped. Fails if none waits for it. A shell that has started a rank would die of
# it, and Open MPI would end the run.
tell_ranks() {
  local process mask status=1
  for process in $(pgrep --session "$2"); do
    mask=$(awk '/^Sig(Cgt|Blk):/ { printf "%s0x%s", n++ ? " | " : "", $2 }' "/proc/$process/status" 2>/dev/null) ||
      continue # it has ended
    (((${mask:-0}) >> ($(kill -l "$1") - 1) & 1)) || continue # neither caught nor blocked
    grep -qz '^OMPI_COMM_WORLD_RANK=' "/proc/$process/environ" 2>/dev/null || continue
    if kill -s "$1" "$process" 2>/dev/null; then status=0; fi
  done
  pkill -CONT --session "$2" || true
  return "$status"
}

# Unsets what another launcher, or a run that has started this one, has left in the environment: it would
# mislead the ranks and Open MPI. Of a job's variables those stay that
# say which nodes it has, and of PMIx's those that a user sets.
forget_launchers() {
  local variable other='^((PMIX?|HYDRA|HYDI|MV2_COMM_WORLD|FLUX|JSM|PALS|ALPS|TORCHELASTIC)_'
  other+='|((LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|MPI_LOCALN?RANK(ID|S)|PE_HOSTFILE)$'
  other+='|SLURM_(STEP|SRUN_|PMI|PROCID|LOCALID|NODEID|GTIDS|TASK_PID|LAUNCH_NODE_IPADDR|MPI_TYPE)'
  other+='|(OMPI|PRTE)_MCA_(orte|prte)_default_hostfile$|(OMPI|PRTE)_MCA_plm_(rsh|ssh)_args$'
  if [[ -n ${OMPI_COMM_WORLD_RANK-} ]]; then other+='|(OMPI|PRTE|ORTE)_'; fi
  other+=')'
  for variable in $(compgen -e); do
    [[ ! $variable =~ $other || $variable =~ ^PMIX_(MCA_|HOSTNAME$) ]] || unset "$variable"
  done
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
