#!/usr/bin/env bash
# Tries the cells of borders.txt, in a copy of the tree in which Bazel, what it builds, apt-get and mpirun are
# stood in for. borders_test.sh [NAME...]: rows with these names only. Of the cells that say "same" or "named"
# it tries a third, of phases one for each row, and of two limits one; with --exhaustive (tools/test) all.
set -euo pipefail

# Rows of scripts that are being changed: what is wrong there is said, and no failure.
pending=()

here=$PWD
root=$(dirname "$(dirname "$(readlink -f tools/run)")") # to see what is in tools/, whoever lists it
table=$here/tests/tools/borders.txt
tree=$TEST_TMPDIR/tree scratch=$TEST_TMPDIR/scratch
failed=0 cells=0 runs=0
RANDOM=64 # what is tried is drawn

# A row for each script and each program, and none for others.
listed=$(sed -nE 's/^(tools[^ |]*) \|.*/\1/p' "$table")
there=$(cd "$root" && find tools -type f -perm -u+x -not -path '*/__pycache__/*' &&
  find tools -name BUILD | while read -r file; do
    sed -n '/^cc_binary(/,/^)/s|^    name = "\([^"]*\)",$|'"${file%/BUILD}"':\1|p' "$file"
  done)
diff <(sort <<<"$listed") <(sort <<<"$there") |
  sed -nE 's/^> /borders.txt has no row for /p; s/^< /borders.txt has a row too many: /p' >"$TEST_TMPDIR/rows" || :
if [[ -s $TEST_TMPDIR/rows ]]; then cat "$TEST_TMPDIR/rows" && exit 1; fi

mkdir -p "$tree/path" "$tree/exercises" "$scratch" "$TEST_TMPDIR/elsewhere/tools"
cp -r "$root"/{tools,lessons,notes,zoo,.bazelrc} "$tree"
mkdir -p "$tree/tests/golden" && cp -r "$root/tests/golden/gpt2_transformers" "$tree/tests/golden"
cd "$tree"
# stand_in FILE [COMMANDS]: a program that does this. It lasts where LASTS is its name: until a signal, or, with
# :stopped, in spite of it.
stand_in() {
  mkdir -p "$(dirname "$1")"
  cat >"$1" <<PROGRAM
#!/bin/bash
name=\${0##*/}
if [[ \${LASTS%:*} == "\$name" && "\$*" != *--version* && "\$*" != *dumpversion* ]]; then
  [[ \$LASTS != *:stopped ]] || trap '' HUP INT TERM
  : >'$TEST_TMPDIR/lasts'
  exec sleep 1000
fi
${2-}
PROGRAM
  chmod +x "$1"
}
# shellcheck disable=SC2016 # programs
{
  stand_in path/bazel 'case $1 in
    --version) echo "bazel no_version" ;;
    query) echo //x:y ;;
    aquery) echo "{\"actions\": [{\"arguments\": [\"g++\", \"-c\", \"a.cc\"]}]}" ;;
    info) echo / ;;
    build) [[ -z ${LOCKED-} ]] || { echo "Another command holds the client lock: pid=1" >&2 && sleep 4; } ;;
  esac'
  stand_in path/apt-get '[[ -z ${LOCKED-} || -e $TMPDIR/locked ]] || {
    : >"$TMPDIR/locked" && echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)" && exit 100
  }
  [[ $* != *" download "* ]] || : >a.deb
  [[ $* != *" install "* || $* == *--download-only* ]] || : >"$MISSING.done"'
  stand_in path/dpkg-query 'for package in "${@:3}"; do
    [[ $package == bible-kjv && -n ${MISSING-} && ! -e $MISSING.done ]] || echo "installed $package"
  done'
  stand_in path/g++ '[[ $1 != -dumpversion ]] || { echo 12 && exit; }
    for ((i = 1; i < $#; ++i)); do [[ ${!i} != -o ]] || { i=$((i + 1)) && printf "#!/bin/sh\nexit 42\n" >"${!i}" && chmod +x "${!i}"; }; done'
  stand_in path/git 'case $* in *ls-files*) printf "a.cc\0" ;; *rev-parse*--show-toplevel*) pwd ;; esac'
  stand_in path/mpirun '[[ $* != *program* ]] || echo ran'
  stand_in path/cmark-gfm
}
for program in path/{mpicc,nproc,clang-format,clang-tidy-16,dpkg,objdump,xz,strip} \
  bazel-bin/tools/{state/{checkpoints/checkpoints,comparison/comparison,inspector/inspector},measure/calibrator/calibrator} \
  bazel-bin/tools/{course/{spine/spine,grader/grader},measure/bubbles/bubbles} bazel-bin/zoo/zoo_05 program \
  bazel-bin/lessons/{01_single_gpu/01_single_gpu,02_ddp/02_ddp,19_planning/19_planning} \
  fuzz-bin/tests/common/{io/safetensors,train/inputs,checkpoint/index}_fuzzer \
  "$TEST_TMPDIR/cache/ladder/cuda_tools/bin/cuobjdump"; do
  stand_in "$program" 'echo "$name ran"'
done
printf '#!/bin/bash\n[[ $1 != *version ]] || echo "mpicc: Open MPI 4.1.4 (Language: C)"\n' >path/mpicc
printf '#!/bin/bash\necho 2\n' >path/nproc
printf 'environment=()\nflags=(--steps 1)\nlesson=02_ddp\nlook=here\nranks=1\nhangs=\n' >bazel-bin/zoo/zoo_05_settings
printf 'int f() {\n  return 1;\n}\n' >a.cc
mkdir -p bazel-bin/tools/course/grader/unwritten/02_ddp exercises/{02_ddp,puzzles}
echo 'fail("f is not written yet")' >bazel-bin/tools/course/grader/unwritten/02_ddp/new.cc
# shellcheck source=tools/course/grader/lessons.sh
(root=$tree && source tools/course/grader/lessons.sh && cd exercises/02_ddp && files_of 02_ddp | xargs touch)
cat lessons/00_collectives/puzzles/1.cc .bazelrc >exercises/puzzles/00.1.cc
export PATH=$tree/path:$PATH TMPDIR=$scratch XDG_CACHE_HOME=$TEST_TMPDIR/cache HOME=$TEST_TMPDIR LASTS=''
unset LADDER_NO_SETUP LADDER_IN_CLUSTER LADDER_CLUSTER

# wrong WHAT: a cell does not hold.
wrong() {
  local kind=WRONG
  if [[ " ${pending[*]} " == *" $name "* ]]; then kind=pending; else failed=1; fi
  echo "$kind: $name: $column '$cell': $1; said:"
  head -n 8 "$TEST_TMPDIR/said" | sed 's/^/    /'
}

exec {nothing}<> <(:)
# Waits for a moment, without a process.
pause() { read -rt 0.02 -u "$nothing" || :; }

# Runs the row's command, behind these words; what it says, without times and processes, is in `said`. Sets
# `status`, which is 124 or 137 if it does not end.
run() {
  status=0
  runs=$((runs + 1))
  rm -rf "${scratch:?}"/* exercises/02_ddp/new.cc
  timeout --kill-after=5 60 env "$@" "${command[@]}" >"$TEST_TMPDIR/said" 2>&1 </dev/null || status=$?
}
# What does not change from run to run.
lasting() { sed -E "s/[0-9]+ s\b/N s/; s/mpirun\.[A-Za-z0-9]{6}/FOLDER/g" "$TEST_TMPDIR/said"; }

# Fails the cell unless the last run did what the first one does.
same() {
  [[ $status == "$usual" && $(lasting) == "$said_usually" ]] ||
    wrong "status $status instead of $usual, and not what it says otherwise: $(head -n 3 <<<"$said_usually")"
}

# The processes of the row's command, wherever they are.
alive() { grep -lsz "^BORDERS=$runs\$" /proc/[0-9]*/environ | grep -v /self/ || :; }

# signal PHASE: sends a signal while that lasts.
signal() {
  local phase=$1 process names=(HUP INT TERM) number=(1 2 15) draw to tries
  draw=$((RANDOM % 3))
  status=0
  runs=$((runs + 1))
  rm -rf "$TEST_TMPDIR/lasts" "${scratch:?}"/*
  setsid env --default-signal=INT BORDERS=$runs LASTS="$phase" MISSING="$TEST_TMPDIR/missing$runs" \
    "${command[@]}" >"$TEST_TMPDIR/said" 2>&1 </dev/null &
  process=$!
  for ((tries = 0; tries < 3000; ++tries)); do
    [[ ! -e $TEST_TMPDIR/lasts && ($phase != alive || ! -e meet/$(uname -n)/alive) ]] || break
    kill -0 $process 2>/dev/null || break
    pause
  done
  # Keys reach the whole group, other signals one process.
  to=$process
  [[ ${names[draw]} != INT ]] || to=-$process
  kill -s "${names[draw]}" -- $to 2>/dev/null || { wrong "it ends before there is $phase" && return; }
  for ((tries = 0; tries < 1000; ++tries)); do
    kill -0 $process || break
    pause
  done 2>/dev/null
  ((tries < 1000)) || { wrong "20 s after SIG${names[draw]} it lives" && kill -s KILL -- -$process; }
  wait $process 2>/dev/null || status=$?
  ((status == 128 + number[draw])) || wrong "status $status after SIG${names[draw]} during $phase"
  for ((tries = 0; tries < 500; ++tries)); do
    [[ -n $(alive) ]] || break
    pause
  done
  ((tries < 500)) || {
    wrong "after SIG${names[draw]} during $phase there is still $(alive | xargs -I{} sh -c 'tr "\0" " " <"$(dirname {})/cmdline"; echo')"
    alive | cut -d/ -f3 | xargs -r kill -s KILL 2>/dev/null || :
  }
  [[ -z $(ls -A "$scratch") ]] || wrong "after SIG${names[draw]} during $phase TMPDIR has $(ls -A "$scratch" | xargs)"
}

# Sets `these` to one of the words, or to all with --exhaustive.
draw() {
  these=("$@")
  [[ -n ${LADDER_EXHAUSTIVE-} ]] || these=("${these[RANDOM % $#]}")
}

# What a launcher, a shell or a user may have set, and a value for each variable that the script has.
strays() {
  printf '%s=1\n' OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE PMIX_RANK WORLD_SIZE RANK LOCAL_RANK FLUX_JOB_SIZE
  printf '%s\n' "CDPATH=$TEST_TMPDIR/elsewhere" GREP_OPTIONS=-v POSIX_ME_HARDER=1 LC_ALL=C.UTF-8 TERM=dumb
  [[ $1 == *:* ]] || grep -oE '\b[a-z][a-z_]{2,}=|\$\{?[a-z][a-z_]{2,}' "$tree/$1" | grep -oE '[a-z_]+' | sort -u |
    sed 's/$/=stray/'
}

try_cell() {
  case $column:$cell in
    *:-* | lock:none) return ;;
    signals:*)
      # shellcheck disable=SC2086 # a list
      draw ${cell//,/ }
      for phase in "${these[@]}"; do signal "$phase"; done
      ;;
    TMPDIR:named)
      run TMPDIR=/nope
      [[ $status == 2 && $(tail -n 1 "$TEST_TMPDIR/said") == *TMPDIR* && $(grep -c /nope "$TEST_TMPDIR/said") == 1 ]] ||
        wrong "status $status where TMPDIR=/nope"
      ;;
    TMPDIR:full)
      [[ $can_mount == yes ]] || return 0
      run "${mounted[@]}" 1m "$scratch"
      [[ $status != 0 && $(grep -c . "$TEST_TMPDIR/said") == 1 && $(<"$TEST_TMPDIR/said") == *"$scratch"* ]] ||
        wrong "status $status where TMPDIR has 1 MiB"
      ;;
    TMPDIR:same) run TMPDIR=/nope && same ;;
    shm:same) [[ $can_mount == no ]] || { run "${mounted[@]}" 4k /dev/shm && same; } ;;
    limits:ends)
      draw "-n 10" "-s 100"
      for limit in "${these[@]}"; do
        run sh -c "ulimit $limit; exec \"\$@\"" sh
        ((status < 124 && (status == 0 || $(grep -c . "$TEST_TMPDIR/said") > 0))) || wrong "status $status with ulimit $limit"
      done
      ;;
    lock:waits)
      run LOCKED=1 MISSING="$TEST_TMPDIR/missing$runs"
      [[ $status == 0 && $(<"$TEST_TMPDIR/said") == *"waiting for"* ]] || wrong "status $status, and nothing of waiting"
      ;;
    lock:refused)
      "${command[@]}" &>/dev/null &
      until [[ -e meet/$(uname -n)/alive ]]; do pause; done
      run
      kill $!
      wait $! || :
      [[ $status == 2 && $(grep -c . "$TEST_TMPDIR/said") == 1 ]] || wrong "status $status"
      ;;
    stray:same)
      mapfile -t given < <(strays "$name")
      run "${given[@]}" && same
      ;;
    *) wrong "nobody knows what that is" ;;
  esac
}

# Words that have a command run where so much memory is mounted at a place.
# shellcheck disable=SC2016 # for the inner shell
mounted=(unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=$1 none "$2" && shift 2 && exec "$@"' sh)
can_mount=yes
if ! unshare --user --map-root-user --mount mount -t tmpfs none /dev/shm 2>/dev/null; then
  can_mount=no
  echo "skipped: a small /dev/shm for scripts (this system forbids namespaces)"
fi
columns=(signals TMPDIR shm limits lock stray)
while IFS='|' read -r name arguments rest; do
  name=${name% }
  [[ $name == tools* ]] && (($# == 0)) || [[ " $* " == *" $name "* ]] || continue
  IFS='|' read -ra row <<<"$rest"
  read -ra arguments <<<"$arguments"
  command=("$name" "${arguments[@]}")
  [[ $name != *:* ]] || command=("$here/${name/:/\/}" "${arguments[@]}")
  usual=none said_usually=''
  for i in "${!columns[@]}"; do
    column=${columns[i]} cell=$(xargs <<<"${row[i]}")
    cells=$((cells + 1))
    if [[ $cell == -* ]] && ! grep -q "^$cell  " "$table"; then wrong "the table does not explain that"; fi
    if [[ $cell =~ ^(same|named) && -z ${LADDER_EXHAUSTIVE-} ]] && ((RANDOM % 3)); then continue; fi
    if [[ $cell == same && $usual == none ]]; then
      run A=b
      usual=$status said_usually=$(lasting)
      ((usual == 0)) || wrong "it does not even run: status $usual"
    fi
    cells_here=$cell
    for cell in ${cells_here//\// }; do try_cell; done
  done
done < <(sed -n '/^tools/p' "$table")
echo "$cells cells, $runs runs"
exit $failed
