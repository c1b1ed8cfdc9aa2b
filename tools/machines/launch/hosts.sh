# shellcheck shell=bash
# How tools/mpirun starts ranks on several machines: by hosts that the user names, or on the nodes that
# a scheduler has given to a job. tools/mpirun sources it, and says what the environment names: the `job`, and
# the variable of a hostfile.

: "${launch:?is the folder of this file}" "${job?}" "${default_hostfile:?}"
here=$(uname -n) # an exported HOSTNAME may be that of another machine

refuse() {
  echo "error: $1" >&2
  exit 2
}

# Takes -n, --hosts, --hostfile and --interface from the beginning of the arguments. Sets `ranks`,
# `named_hosts` (a, b:2), `interface`, and `program` to what is left.
read_launch_flags() {
  ranks='' named_hosts=() interface=''
  local source='' host list
  while [[ ${1-} =~ ^(-n|--hosts|--hostfile|--interface)$ ]]; do
    (($# > 1)) || refuse "$1 needs a value"
    case $1 in
      -n)
        [[ $2 =~ ^[1-9][0-9]{0,4}$ ]] || refuse "-n needs a positive number of ranks, not '$2'"
        ranks=$2
        ;;
      --interface)
        [[ $2 =~ ^[A-Za-z0-9._-]+$ ]] || refuse "--interface needs the name of a network interface, not '$2'"
        interface=$2
        ;;
      *)
        [[ -z $source ]] || refuse "$source and $1 both say where ranks run; give one of them"
        source=$1
        if [[ $1 == --hosts ]]; then
          mapfile -t -d , list < <(printf '%s' "$2")
          for host in "${list[@]}"; do [[ -z $host ]] || named_hosts+=("$host"); done
        else
          read_hostfile "--hostfile $2" "$2"
        fi
        ;;
    esac
    shift 2
  done
  program=("$@")
  ((${#program[@]} > 0)) || refuse "there is no program to run"
  if [[ -z $source$job && -n ${!default_hostfile-} ]]; then
    source=$default_hostfile=${!default_hostfile}
    read_hostfile "$source" "${!default_hostfile}"
  fi
  [[ -z $source ]] || ((${#named_hosts[@]} > 0)) || refuse "$source names no host; say, for example, --hosts a,b"
  [[ -z $interface || -n $source || -n $job ]] || refuse "--interface: ranks of one machine need no network"
  if [[ -n ${SLURM_JOB_ID-} ]]; then
    [[ -z $source ]] ||
      refuse "$source: a scheduler has given this job (number $job) its nodes already; leave $source out"
    read_nodes_of_slurm
  elif [[ -n $job && -z $source ]]; then
    read_nodes_of_job "$job"
  fi
}

# SLURM says "node[1-3]", and "2(x2),1" for what it has given on each of them.
read_nodes_of_slurm() {
  local list nodes counts=() part parts i job="SLURM_JOB_ID is $SLURM_JOB_ID"
  local way_out="unset SLURM_JOB_ID: then ranks run on this machine, or on those of --hosts"
  mapfile -t -d , parts < <(printf '%s' "${SLURM_TASKS_PER_NODE-}")
  for part in "${parts[@]}"; do
    [[ $part =~ ^([1-9][0-9]{0,4})(\(x([1-9][0-9]{0,4})\))?$ ]] ||
      refuse "$job, and SLURM_TASKS_PER_NODE is no list of tasks: '$SLURM_TASKS_PER_NODE'; $way_out"
    for ((i = 0; i < ${BASH_REMATCH[3]:-1}; ++i)); do counts+=("${BASH_REMATCH[1]}"); done
  done
  [[ -n ${SLURM_JOB_NODELIST-} ]] || refuse "$job, but SLURM_JOB_NODELIST names no nodes; $way_out"
  if ! command -v scontrol >/dev/null; then # as in many containers
    [[ $SLURM_JOB_NODELIST =~ ^[A-Za-z0-9._-]+$ ]] ||
      refuse "$job, and the job uses the nodes $SLURM_JOB_NODELIST, but this machine has no scontrol to expand that list; start the run outside the container, or $way_out"
    nodes=(localhost)
    unset "${!SLURM_@}" # else Open MPI asks SLURM, too
  else
    list=$(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>&1) ||
      refuse "$job, and scontrol does not know its nodes, $SLURM_JOB_NODELIST (${list//$'\n'/ }); $way_out"
    mapfile -t nodes <<<"$list"
  fi
  ((${#counts[@]} == 0 || ${#counts[@]} == ${#nodes[@]})) ||
    refuse "$job, and it has ${#nodes[@]} nodes (${nodes[*]}), but tasks for ${#counts[@]}; $way_out"
  for ((i = 0; i < ${#nodes[@]}; ++i)); do named_hosts+=("${nodes[i]}${counts[i]:+:${counts[i]}}"); done
}

# PBS and LSF name a host as often as they have given it to job $1 for a rank, a line each. Grid Engine says
# how often: a line has host, ranks, queue and processors.
read_nodes_of_job() {
  local variable=PBS_NODEFILE
  if [[ -n ${PBS_JOBID-} ]]; then :; elif [[ -n ${LSB_JOBID-} ]]; then
    variable=LSB_DJOB_HOSTFILE
  else
    variable=PE_HOSTFILE
  fi
  [[ -n ${!variable-} ]] ||
    refuse "this is job $1 of a scheduler, but $variable, which names its nodes, is not set; name them by --hosts"
  read_hostfile "$variable=${!variable}" "${!variable}"
  ((${#named_hosts[@]} > 0)) || refuse "$variable=${!variable} names no host; say, for example, --hosts a,b"
}

# Reads file $2, which $1 has named: "name" or "name slots=4 max_slots=4" a line, as Open MPI's hostfiles have
# it, or "name 4 queue processors" as Grid Engine's have it. A name that is there several times has that many
# ranks.
read_hostfile() {
  [[ -f $2 && -r $2 ]] || refuse "$1: there is no such file, or it cannot be read"
  local line number=0 name names=() before repeated=0 most='([[:blank:]]+max[_-]slots[[:blank:]]*=[[:blank:]]*[0-9]+)?'
  local -A times=()
  while read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    line=${line%$'\r'}
    line=${line%%#*}
    [[ $line =~ [^[:blank:]] ]] || continue
    if [[ $1 == PE_HOSTFILE=* && $line =~ ^([^[:blank:]]+)[[:blank:]]+([1-9][0-9]{0,4})[[:blank:]] ]]; then
      name=${BASH_REMATCH[1]}
      [[ -n ${times[$name]-} ]] || names+=("$name") # a host may have several queues
      times[$name]=$((${times[$name]-0} + BASH_REMATCH[2])) repeated=1
      continue
    fi
    [[ $line =~ ^([^[:blank:]=]+)${most}([[:blank:]]+slots[[:blank:]]*=[[:blank:]]*([0-9]{1,5}))?${most}[[:blank:]]*$ ]] ||
      refuse "$1, line $number: ${line@Q} is not like 'name' or 'name slots=4'"
    name=${BASH_REMATCH[1]}
    if [[ -n ${BASH_REMATCH[4]} ]]; then
      named_hosts+=("$name:${BASH_REMATCH[4]}")
    else
      before=${times[$name]-0}
      if ((before == 0)); then names+=("$name"); else repeated=1; fi
      times[$name]=$((before + 1))
    fi
  done <"$2"
  for name in "${names[@]}"; do
    if ((repeated)); then name+=:${times[$name]}; fi
    named_hosts+=("$name")
  done
}

# Sets `hosts` to the names and `slots` to how many ranks each may have. Hosts without a number share
# the ranks evenly.
share_ranks() {
  hosts=() slots=()
  local host total=0 with_slots=0
  for host in "${named_hosts[@]}"; do
    [[ $host =~ ^([A-Za-z0-9][A-Za-z0-9._-]*)(:([1-9][0-9]{0,4}))?$ ]] ||
      refuse "${host@Q} is no host; say a name, or a name and a number of ranks, such as node1:4"
    [[ " ${hosts[*]} " != *" ${BASH_REMATCH[1]} "* ]] ||
      refuse "host ${BASH_REMATCH[1]} is named twice; say how many ranks it has, as in ${BASH_REMATCH[1]}:2"
    hosts+=("${BASH_REMATCH[1]}")
    slots+=("${BASH_REMATCH[3]:-0}")
    total=$((total + ${BASH_REMATCH[3]:-0}))
    [[ -z ${BASH_REMATCH[3]} ]] || with_slots=$((with_slots + 1))
  done
  local count=${#hosts[@]} i
  ((with_slots == 0 || with_slots == count)) ||
    refuse "some hosts say how many ranks they have, and others do not: ${named_hosts[*]}; say it for all or for none"
  if ((with_slots == 0)); then
    [[ -n $ranks ]] || refuse "-n RANKS is missing: how many ranks are the $count hosts to share?"
    ((ranks % count == 0)) ||
      refuse "-n $ranks: $ranks ranks do not share $count hosts evenly; say how many each has, as in ${hosts[0]}:$((ranks / count + ranks % count))"
    for ((i = 0; i < count; ++i)); do slots[i]=$((ranks / count)); done
  fi
  ((with_slots == 0 || ${ranks:-0} <= total)) ||
    refuse "-n $ranks: the hosts have $total slots in all; take fewer ranks, or give hosts more"
}

# True if this is a name of this machine, which needs no way to it.
is_here() {
  [[ $1 != "$here" ]] || return 0
  local address _
  read -r address _ < <(getent ahostsv4 "$1") || return 1
  [[ $address == 127.* ]] || awk -v address="$address" '
    $1 == "|--" || $1 == "+--" { at = $2 == address }
    at && /host LOCAL/ { found = 1 }
    END { exit !found }' /proc/net/fib_trie 2>/dev/null
}

# Becomes a shell's command on a host, which has a minute to answer.
on_host() {
  only_standard
  if is_here "$1"; then exec bash -c "$2"; else exec timeout --foreground 60 "$launch/reach" "$1" "$2"; fi
} </dev/null

# Refuses a run that cannot start: asks all hosts at once whether they have what it needs. Answers
# are kept in `folder`, a temporary one.
check_hosts() {
  local i answer machine machines=() question daemon=orted
  if command -v prted >/dev/null; then daemon=prted; fi # Open MPI 5
  local same='; ranks need the same files at the same places on all hosts'
  question="cd ${PWD@Q} 2>/dev/null || { echo 'has no folder' ${PWD@Q}'$same'; exit; }
    command -v ${program[0]@Q} >/dev/null || { echo 'has no program' ${program[0]@Q}'$same'; exit; }
    [ -x ${launch@Q}/daemon ] || { echo 'has no' ${launch@Q}/daemon'$same'; exit; }
    command -v $daemon >/dev/null || { echo 'has no $daemon, which is part of Open MPI'; exit; }
    [ -z '$interface' ] || grep -qs '^ *$interface:' /proc/self/net/dev || {
      echo 'has no network interface $interface, only' \$(sed -n 's/^ *\\([^ ]*\\):.*/\\1/p' /proc/self/net/dev); exit; }
    echo on \$(cat /proc/sys/kernel/random/boot_id) \$(uname -n)"
  # Machines that have just been started, as pods are, get their names and their ssh in a while.
  local patience=$((SECONDS + 20)) waits=' ' not_yet='ould not resolve|Connection refused'
  asked=()
  trap 'kill "${asked[@]}" 2>/dev/null || true; end_session' EXIT # a refusal waits for no answer
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    on_host "${hosts[i]}" "$question" >"$1/answer.$i" 2>&1 &
    asked+=($!)
  done
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    until wait "${asked[i]}"; do
      answer=$(tail -n 1 "$1/answer.$i")
      answer=${answer:-it does not answer in a minute}
      if [[ ! $answer =~ $not_yet ]] || ((SECONDS >= patience)); then
        refuse "host ${hosts[i]} cannot be reached: ${answer#error: }"
      fi
      [[ $waits == *" $i "* ]] || echo "host ${hosts[i]}: ${answer#error: }; waiting for it, for 20 s at most" >&2
      waits+="$i "
      sleep 1
      on_host "${hosts[i]}" "$question" >"$1/answer.$i" 2>&1 &
      asked[i]=$!
    done
    unset "asked[i]" # its number may be another process's from now on
    answer=$(tail -n 1 "$1/answer.$i")
    [[ $answer == "on "* ]] || refuse "host ${hosts[i]} $answer"
    for machine in "${machines[@]}"; do
      [[ $answer != "${machine#* }" ]] || refuse "${machine%% *} and ${hosts[i]} are the same machine; name it once"
    done
    machines+=("${hosts[i]} $answer")
  done
  trap end_session EXIT
  rm -f "$1"/answer.*
}

# Sets `machine_flags` to what mpirun needs to start ranks on these hosts. begin_session has set $1, its
# folder in $3, and $2, for $4 ranks.
set_machine_flags() {
  local i variable list=''
  # Several ranks may share a core here, so one that waits gives it up. A host that no longer answers
  # is lost after five seconds, and one that mpirun does not get to start is given up after 30. A long
  # message waits until its receiver allows it, and that answer waits for what the receiver itself is
  # sending. So messages of up to 2 MiB, the slices of an all_reduce in fp32, go without asking.
  machine_flags=(--mca btl "tcp,vader,self" --mca mpi_yield_when_idle 1
    --mca btl_tcp_eager_limit $(((2 << 20) + 4096)))
  set_parameter oob_tcp_keepalive_time oob_tcp_keepalive_time 2
  set_parameter oob_tcp_keepalive_intvl oob_tcp_keepalive_intvl 1
  set_parameter oob_tcp_keepalive_probes oob_tcp_keepalive_probes 3
  set_parameter orte_startup_timeout prte_startup_timeout 30
  if [[ -n $interface ]]; then
    machine_flags+=(--mca btl_tcp_if_include "$interface")
    export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME-$interface}
  fi
  for variable in $(compgen -e); do
    [[ ! $variable =~ ^(LADDER|NCCL|OMP)_ ]] || machine_flags+=(-x "$variable")
  done
  # Names go to mpirun as they were checked: uncut, and this machine by the one name that mpirun has for it.
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    if is_here "${hosts[i]}"; then list+=$here:${slots[i]},; else list+=${hosts[i]}:${slots[i]},; fi
  done
  set_parameter orte_keep_fqdn_hostnames prte_keep_fqdn_hostnames 1
  # The daemons stay in the foreground, so that what starts them can clean up after them.
  machine_flags+=(-H "${list%,}" --leave-session-attached)
  set_parameter plm_rsh_no_tree_spawn plm_ssh_no_tree_spawn 1
  link_files
  set_parameter orte_tmpdir_base prte_tmpdir_base "$2/files"
  set_parameter plm_rsh_agent plm_ssh_agent "$2/files/agent"
  export OMPI_MCA_plm=rsh PRTE_MCA_plm=ssh
  local daemon="$launch/daemon"
  export LADDER_LAUNCH_FOLDER=$1 LADDER_LAUNCH_DAEMON="${daemon@Q} ${2##*/} ${3@Q} $4"
  [[ -z $ranks ]] || machine_flags+=(-n "$ranks")
}

# Ends mpirun (process $1, with the temporary folder $2) by force where a host no longer answers: it
# would wait for that host. The daemons of the other hosts see the end of it and end their ranks.
watch_hosts() {
  local address name
  while [[ ! -s $2/port ]]; do sleep 0.2 && kill -0 "$1" 2>/dev/null || return; done
  address=$("$launch/watch" "$(cat "$2/port")" "$1") || return
  name=$(getent hosts "$address" | awk '{ print $2; exit }')
  echo "error: host ${name:-$address} no longer answers; it, or the network to it, is down" >&2
  : >"$2/lost"
  pkill -KILL --parent "$1" || true
  kill -s KILL "$1"
}
