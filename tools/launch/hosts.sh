# shellcheck shell=bash
# How tools/mpirun starts ranks on several machines: by hosts that the user names, or on the nodes that
# SLURM has given to a job. tools/mpirun sources it.

: "${tools:?is the folder of tools/mpirun}"

refuse() {
  echo "error: $1" >&2
  exit 2
}

# Takes -n, --hosts, --hostfile and --interface from the beginning of the arguments. Sets `ranks`,
# `named_hosts` ("a b:2"), `interface`, and `program` to what is left.
read_launch_flags() {
  ranks='' named_hosts='' interface=''
  local source=''
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
        if [[ $1 == --hosts ]]; then named_hosts=${2//,/ }; else read_hostfile "$2"; fi
        ;;
    esac
    shift 2
  done
  program=("$@")
  ((${#program[@]} > 0)) || refuse "there is no program to run"
  [[ -z $source || -n ${named_hosts// /} ]] || refuse "$source names no host; say, for example, --hosts a,b"
  local job=${SLURM_JOB_ID-}${PBS_JOBID-}${LSB_JOBID-}
  [[ -z $interface || -n $source || -n $job ]] || refuse "--interface: ranks of one machine need no network"
  [[ -z $source || -z $job ]] ||
    refuse "$source: a scheduler has given this job (number $job) its nodes already; leave $source out"
  if [[ -n ${SLURM_JOB_ID-} ]]; then read_nodes_of_slurm; fi
}

# SLURM says "node[1-3]", and "2(x2),1" for what it has given on each of them.
read_nodes_of_slurm() {
  local nodes counts=() part i
  mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  for part in ${SLURM_TASKS_PER_NODE//,/ }; do
    [[ $part =~ ^([0-9]+)(\(x([0-9]+)\))?$ ]]
    for ((i = 0; i < ${BASH_REMATCH[3]:-1}; ++i)); do counts+=("${BASH_REMATCH[1]}"); done
  done
  for ((i = 0; i < ${#nodes[@]}; ++i)); do named_hosts+=" ${nodes[i]}:${counts[i]}"; done
}

# Reads "name" or "name slots=4" a line, as Open MPI's hostfiles have it.
read_hostfile() {
  [[ -f $1 && -r $1 ]] || refuse "--hostfile $1: there is no such file, or it cannot be read"
  local line number=0
  while read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    line=${line%%#*}
    [[ -n ${line// /} ]] || continue
    [[ $line =~ ^([^ ]+)(\ +slots=([0-9]+))?\ *$ ]] ||
      refuse "--hostfile $1, line $number: '$line' is not like 'name' or 'name slots=4'"
    named_hosts+=" ${BASH_REMATCH[1]}${BASH_REMATCH[3]:+:${BASH_REMATCH[3]}}"
  done <"$1"
}

# Sets `hosts` to the names and `slots` to how many ranks each may have. Hosts without a number share
# the ranks evenly.
share_ranks() {
  hosts=() slots=()
  local host total=0 with_slots=0
  for host in $named_hosts; do
    [[ $host =~ ^([A-Za-z0-9][A-Za-z0-9._-]*)(:([1-9][0-9]{0,4}))?$ ]] ||
      refuse "'$host' is no host; say a name, or a name and a number of ranks, such as node1:4"
    [[ " ${hosts[*]} " != *" ${BASH_REMATCH[1]} "* ]] ||
      refuse "host ${BASH_REMATCH[1]} is named twice; say how many ranks it has, as in ${BASH_REMATCH[1]}:2"
    hosts+=("${BASH_REMATCH[1]}")
    slots+=("${BASH_REMATCH[3]:-0}")
    total=$((total + ${BASH_REMATCH[3]:-0}))
    [[ -z ${BASH_REMATCH[3]} ]] || with_slots=$((with_slots + 1))
  done
  local count=${#hosts[@]} i
  ((with_slots == 0 || with_slots == count)) ||
    refuse "some hosts say how many ranks they have, and others do not: ${named_hosts# }; say it for all or for none"
  if ((with_slots == 0)); then
    [[ -n $ranks ]] || refuse "-n RANKS is missing: how many ranks are the $count hosts to share?"
    ((ranks % count == 0)) ||
      refuse "-n $ranks: $ranks ranks do not share $count hosts evenly; say how many each has, as in ${hosts[0]}:$((ranks / count + ranks % count))"
    for ((i = 0; i < count; ++i)); do slots[i]=$((ranks / count)); done
  fi
  ((with_slots == 0 || ${ranks:-0} <= total)) ||
    refuse "-n $ranks: the hosts have $total slots in all; take fewer ranks, or give hosts more"
}

# Runs a shell's command on a host.
on_host() {
  if [[ $1 == "$HOSTNAME" ]]; then bash -c "$2"; else "$tools/launch/reach" "$1" "$2"; fi </dev/null
}

# Refuses a run that cannot start: asks all hosts at once whether they have what it needs. Answers
# are kept in `folder`, a temporary one.
check_hosts() {
  local i answer machine machines=() asked=() question daemon=orted
  if command -v prted >/dev/null; then daemon=prted; fi # Open MPI 5
  local same='; ranks need the same files at the same places on all hosts'
  question="cd ${PWD@Q} 2>/dev/null || { echo 'has no folder' ${PWD@Q}'$same'; exit; }
    command -v ${program[0]@Q} >/dev/null || { echo 'has no program' ${program[0]@Q}'$same'; exit; }
    [ -x ${tools@Q}/launch/daemon ] || { echo 'has no' ${tools@Q}/launch/daemon'$same'; exit; }
    command -v $daemon >/dev/null || { echo 'has no $daemon, which is part of Open MPI'; exit; }
    [ -z '$interface' ] || grep -qs '^ *$interface:' /proc/self/net/dev || {
      echo 'has no network interface $interface, only' \$(sed -n 's/^ *\\([^ ]*\\):.*/\\1/p' /proc/self/net/dev); exit; }
    echo on \$(cat /proc/sys/kernel/random/boot_id) \$(uname -n)"
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    on_host "${hosts[i]}" "$question" >"$1/answer.$i" 2>&1 &
    asked+=($!)
  done
  for ((i = 0; i < ${#hosts[@]}; ++i)); do
    if ! wait "${asked[i]}"; then
      refuse "host ${hosts[i]} cannot be reached: $(tail -n 1 "$1/answer.$i")"
    fi
    answer=$(tail -n 1 "$1/answer.$i")
    [[ $answer == "on "* ]] || refuse "host ${hosts[i]} $answer"
    for machine in "${machines[@]}"; do
      [[ $answer != "${machine#* }" ]] || refuse "${machine%% *} and ${hosts[i]} are the same machine; name it once"
    done
    machines+=("${hosts[i]} $answer")
  done
  rm -f "$1"/answer.*
}

# Sets `machine_flags` to what mpirun needs to start ranks on these hosts.
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
    machine_flags+=(--mca btl_tcp_if_include "$interface"
      -x "NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME-$interface}")
  fi
  for variable in $(compgen -e); do
    [[ ! $variable =~ ^(LADDER|NCCL|OMP)_ || $variable == NCCL_SOCKET_IFNAME ]] || machine_flags+=(-x "$variable")
  done
  if ((${#hosts[@]} > 0)); then
    for ((i = 0; i < ${#hosts[@]}; ++i)); do list+=${list:+,}${hosts[i]}:${slots[i]}; done
    # The daemons stay in the foreground, so that what starts them can clean up after them.
    machine_flags+=(-H "$list" --leave-session-attached)
    set_parameter plm_rsh_no_tree_spawn plm_ssh_no_tree_spawn 1
    set_parameter plm_rsh_agent plm_ssh_agent "$tools/launch/agent"
    export OMPI_MCA_plm=rsh PRTE_MCA_plm=ssh
  fi
  [[ -z $ranks ]] || machine_flags+=(-n "$ranks")
}

# Ends mpirun (process $1, with the temporary folder $2) by force where a host no longer answers: it
# would wait for that host. The daemons of the other hosts see the end of it and end their ranks.
watch_hosts() {
  local address name
  while [[ ! -s $2/port ]]; do sleep 0.2; done
  address=$("$tools/launch/watch" "$(cat "$2/port")")
  name=$(getent hosts "$address" | awk '{ print $2; exit }')
  echo "error: host ${name:-$address} no longer answers; it, or the network to it, is down" >&2
  pkill -KILL --parent "$1" || true
  kill -s KILL "$1"
}
