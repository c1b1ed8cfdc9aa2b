# shellcheck shell=bash
# For tools/run, tools/mpirun and the daemons on its hosts.
#
# require_limits RANKS: exits with 2 and a line where a limit of this shell (`ulimit`) is smaller than what Open MPI
# needs to start so many ranks on a host: it would hang, or crash without a reason. What the program itself
# needs is not counted. Limits of files and stack are raised, as far as the user may; others may be meant.
require_limits() {
  local limit flag least have task tasks=0
  have=$(ulimit -S -u)
  if ((EUID > 0)) && [[ $have != unlimited ]] && ((have < 4096)); then # a larger one is not worth counting
    for task in /proc/[0-9]*/task/[0-9]*; do
      if [[ -O $task ]]; then tasks=$((tasks + 1)); fi
    done
  fi
  for limit in "-u $((EUID > 0 ? tasks + 16 + 6 * $1 : 0)) processes and threads, with those that run" \
    "-n $((48 + 5 * $1)) open files" "-s 256 KiB of stack" "-f 5000 KiB in a file" "-d 50000 KiB of data" \
    "-v 200000 KiB of addresses"; do
    flag=${limit%% *} limit=${limit#* }
    least=${limit%% *} have=$(ulimit -S "$flag")
    if [[ $have != unlimited ]] && ((have < least)) &&
      ! { [[ $flag == -[ns] ]] && ulimit -S "$flag" "$least" 2>/dev/null; }; then
      echo "error: host $(uname -n): ulimit $flag is $have; $1 ranks need $limit: raise it" >&2
      exit 2
    fi
  done
}
