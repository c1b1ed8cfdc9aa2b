#!/usr/bin/env bash
# tools/setup in a tree and with a PATH of its own: what cannot work is refused in one line, before
# anything is installed, and nothing is installed where nothing may be.
set -euo pipefail

setup=$PWD/tools/setup
tree=$TEST_TMPDIR/ladder
mkdir -p "$tree/tools" "$TEST_TMPDIR/path"
cp "$setup" "$tree/tools/setup"
cd "$TEST_TMPDIR"

# fake NAME COMMANDS: a program that runs them. What had the name may be a link to the real one.
fake() {
  rm -f "path/$1"
  printf '#!/bin/bash\n%s\n' "$2" >"path/$1"
  chmod +x "path/$1"
}
for program in bash cat chmod cp dirname rm env grep head mkdir mv printf readlink sed setpriv sleep sort tr; do
  ln -s "$(command -v $program)" "path/$program"
done
all_is_well() {
  fake uname 'if [[ $1 == -s ]]; then echo Linux; else echo x86_64; fi'
  fake apt-get "echo \"\$*\" >>'$TEST_TMPDIR/installed'"
  fake dpkg-query 'for package in "${@:3}"; do echo "installed $package"; done'
  fake g++ '[[ $1 != -dumpversion ]] || echo 12'
  fake bazel 'echo bazel no_version'
  fake mpicc 'echo "mpicc: Open MPI 4.1.4 (Language: C)"'
  for program in mpirun bible pkill; do fake $program ''; done
}

# expect STATUS TEXT [VARIABLE=VALUE...]: how tools/setup ends and what it says, in a line at most.
expect() {
  local status=0 out
  out=$(env -i PATH="$TEST_TMPDIR/path" XDG_CACHE_HOME="$TEST_TMPDIR/cache" "${@:3}" "$tree/tools/setup" 2>&1) || status=$?
  if ((status != $1)) || [[ $out != *"$2"* || $out == *$'\n'* || ($1 != 0 && -z $2) ]]; then
    echo "expected status $1 and: $2"
    echo "seen     status $status and: $out"
    exit 1
  fi
  if [[ -e installed ]]; then
    echo "something was installed, with: $out"
    exit 1
  fi
}

# refused WHY PROGRAM COMMANDS: as it is where this program does so.
refused() {
  all_is_well
  fake "$2" "$3"
  expect 1 "$1"
}

all_is_well
expect 0 ""
refused "this is Darwin, wanted is Linux" uname 'echo Darwin'
refused "this CPU is riscv64" uname 'if [[ $1 == -s ]]; then echo Linux; else echo riscv64; fi'
refused "g++ is version 9, wanted is" g++ 'echo 9'
refused "bazel is version 8.4.2, wanted is 4.2.3" bazel 'echo bazel 8.4.2'
refused "path/mpicc is Open MPI 3.1.0's, wanted is Open MPI 4.1" mpicc 'echo "mpicc: Open MPI 3.1.0 (Language: C)"'
refused "is not Open MPI's" mpicc 'echo "unrecognized argument --showme:version" >&2; exit 1'

# A newer Bazel gets its flags, and an older one is rid of them.
all_is_well
fake bazel 'echo bazel 7.7.1'
mkdir -p ladder/tools/bazel
expect 0 ""
grep -q enable_workspace ladder/tools/bazel/machine.bazelrc
all_is_well
expect 0 ""
[[ ! -e ladder/tools/bazel/machine.bazelrc ]]

# Nothing is installed, but what is missing is named.
all_is_well
rm path/bible
expect 1 "LADDER_NO_SETUP is set, so nothing is installed. Missing, with the names of Debian's packages: bible (bible-kjv)" LADDER_NO_SETUP=1
fake g++ 'case $1 in -dumpversion) echo 12 ;; *) ! grep -q dnnl ;; esac'
expect 1 "<dnnl.hpp> (libdnnl-dev), bible (bible-kjv)" LADDER_NO_SETUP=1
rm path/apt-get
expect 1 "there is no apt-get here"

# Bazel does not take such a path.
all_is_well
for name in "my ladder" "ladder_größe"; do
  mv "$tree" "$TEST_TMPDIR/$name"
  tree=$TEST_TMPDIR/$name
  expect 1 "the tree lies in '$tree'"
done
mv "$tree" "$TEST_TMPDIR/ladder"

# What is missing is installed, and that alone.
fake dpkg-query "[[ -e '$TEST_TMPDIR/installed' ]] || set -- \"\${@/bible-kjv/}\"
for package in \"\${@:3}\"; do echo \"installed \$package\"; done"
fake env 'while [[ $1 == *=* ]]; do shift; done; exec "$@"'
PATH=$TEST_TMPDIR/path XDG_CACHE_HOME=$TEST_TMPDIR/cache ladder/tools/setup 2>said || { cat said && exit 1; }
grep -q "^setup: installing 1 of 13 packages: bible-kjv$" said
grep -q -- "install .* bible-kjv$" installed

# installs STATUS SAID APT-GET: what tools/setup says where apt-get does that at first; `tries` counts.
installs() {
  local status=0 out
  rm -f installed tries
  fake apt-get "echo >>'$TEST_TMPDIR/tries'; tries=\$(grep -c '' '$TEST_TMPDIR/tries')
    $3
    [[ \$* != *' install '* || \$* == *--download-only* ]] || echo >'$TEST_TMPDIR/installed'"
  out=$(PATH=$TEST_TMPDIR/path XDG_CACHE_HOME=$TEST_TMPDIR/cache ladder/tools/setup 2>&1) || status=$?
  [[ $status == "$1" && $out == "setup: installing 1 of 13 packages: bible-kjv"${2:+$'\n'$2} ]] ||
    { echo "expected status $1 and: $2; seen status $status and: $out" && exit 1; }
}

# Whatever lock another one has, it waits until that is given up, and says so once.
for lock in lists/lock cache/archives/lock dpkg/lock-frontend; do
  first=2 times=1 by=" It is held by process 12 (unattended-upgr)" holder="12 (unattended-upgr)"
  case $lock in
    lists/*) first=1 ;;
    cache/*) by='' holder="of another user" times=2 ;;
  esac
  installs 0 "setup: waiting for another installation to end: process $holder has /var/lib/$lock" \
    "if ((tries >= $first && tries < $((first + times)))); then
      echo 'E: Could not get lock /var/lib/$lock.$by' && exit 100
    fi"
done

# No network, with lists of packages and without, is one line more; so is anything else that fails.
no_network="tools/setup: packages cannot be fetched (Temporary failure resolving 'deb'); is there a network? Missing: bible-kjv"
installs 1 "$no_network" "if [[ \$* == *update* ]]; then
    echo \"W: Failed to fetch http://deb/InRelease  Temporary failure resolving 'deb'\"
  else
    echo 'E: Unable to locate package bible-kjv' && exit 100
  fi"
installs 1 "$no_network" "if [[ \$* != *update* ]]; then
    echo \"E: Failed to fetch http://deb/b.deb  Temporary failure resolving 'deb'\" && exit 100
  fi"
installs 1 "tools/setup: apt-get cannot fetch the packages: E: a; E: b" \
  "[[ \$* == *update* ]] || { echo 'E: a' && echo 'E: b' && exit 100; }"
# Old lists may do.
installs 0 "" "[[ \$* != *update* ]] || { echo 'E: no lists today' && exit 100; }"

# While packages are unpacked, a signal waits.
rm -f installed
fake apt-get "[[ \$* == *--download-only* || \$* != *' install '* ]] ||
  { echo >'$TEST_TMPDIR/unpacks' && sleep 1 && echo >'$TEST_TMPDIR/installed'; }"
PATH=$TEST_TMPDIR/path XDG_CACHE_HOME=$TEST_TMPDIR/cache ladder/tools/setup 2>said &
until [[ -e unpacks ]]; do sleep 0.02; done
kill $!
status=0
wait $! || status=$?
[[ $status == 143 && -e installed ]] && grep -q "^setup: will end when apt-get has ended" said || { cat said && exit 1; }

# Where nvcc is, --test brings cuobjdump once, and Bazel is told where it is. If PyPI cannot be reached,
# that is one line and no failure.
all_is_well
fake env 'while [[ $1 == *=* ]]; do shift; done; exec "$@"'
fake nvcc ''
rm -f ladder/tools/bazel/machine.bazelrc
# setup_test STATUS TEXT: what tools/setup --test says.
setup_test() {
  local status=0 out
  out=$(PATH=$TEST_TMPDIR/path XDG_CACHE_HOME=$TEST_TMPDIR/cache ladder/tools/setup --test 2>&1) || status=$?
  [[ $status == "$1" && $out == "$2" ]] || { echo "expected status $1 and: $2; seen status $status and: $out" && exit 1; }
}
fake python3 'echo "ERROR: no network" >&2; exit 1'
setup_test 0 "setup: bringing cuobjdump and nvdisasm of PyPI
setup: no cuobjdump, so the test of machine code will be skipped: ERROR: no network"
[[ ! -e ladder/tools/bazel/machine.bazelrc ]]
fake python3 'while [[ $1 != --target ]]; do shift; done
mkdir -p "$2/nvidia/cu13/bin" && echo >"$2/nvidia/cu13/bin/cuobjdump" && chmod +x "$2/nvidia/cu13/bin/cuobjdump"'
setup_test 0 "setup: bringing cuobjdump and nvdisasm of PyPI"
grep -qF "LADDER_CUDA_TOOLS=$TEST_TMPDIR/cache/ladder/cuda_tools/bin" ladder/tools/bazel/machine.bazelrc
setup_test 0 ""
