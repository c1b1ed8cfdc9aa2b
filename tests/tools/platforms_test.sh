#!/usr/bin/env bash
# The scripts of tools/platforms refuse what they do not know in one line, and what this machine lacks,
# before they fetch or build anything.
set -euo pipefail

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/lessons/01_single_gpu" "$tree/lessons/02_ddp" "$TEST_TMPDIR/path"
cp -rL tools "$tree"
touch "$tree/lessons"/{01_single_gpu,02_ddp}/BUILD

# fake NAME COMMANDS: a program that runs them.
fake() {
  printf '#!/bin/bash\n%s\n' "$2" >"$TEST_TMPDIR/path/$1"
  chmod +x "$TEST_TMPDIR/path/$1"
}
for program in awk bash dirname readlink sed; do ln -s "$(command -v $program)" "$TEST_TMPDIR/path/$program"; done
for program in apt-get bazel debootstrap; do fake $program "echo $program has run; exit 1"; done
fake uname 'echo x86_64'

# expect STATUS TEXT SCRIPT ARGUMENTS...: how it ends, and what it says in one line.
expect() {
  local status=0 out
  out=$(env -i HOME="$TEST_TMPDIR" PATH="$TEST_TMPDIR/path" "$tree/tools/platforms/$3" "${@:4}" 2>&1) || status=$?
  if ((status != $1)) || [[ $out != *"$2"* || $out == *$'\n'* || $out == *"has run"* ]]; then
    echo "'${*:3}': status $status, expected $1; said:"
    echo "$out"
    echo "and not: $2"
    exit 1
  fi
}

for script in try_aarch64 try_system; do
  out=$("$tree/tools/platforms/$script" --help)
  [[ $out == *"tools/platforms/$script "* ]]
  status=0
  out=$("$tree/tools/platforms/$script" 2>&1 >/dev/null) || status=$?
  [[ $status == 2 && $out == *"tools/platforms/$script "* ]]
done

expect 2 "no flag '--tset'; did you mean --test?" try_aarch64 --tset
expect 2 "no flag '-n'; --help says" try_aarch64 -n 2 01_single_gpu
expect 2 "no lesson is called '01'; did you mean 01_single_gpu?" try_aarch64 01
expect 2 "no lesson is called 'ddp'; did you mean 02_ddp?" try_aarch64 ddp --steps 2
expect 2 "no lesson is called '../lessons/02_ddp'" try_aarch64 ../lessons/02_ddp
expect 2 "no lesson is called ''" try_aarch64 ''
expect 2 "--bits takes no arguments, and here is '01_single_gpu'" try_aarch64 --bits 01_single_gpu
expect 2 "'gelu_test' is no test; say //tests/kernels:gelu_test" try_aarch64 --test --jobs=1 gelu_test
expect 2 "//tests/kernels:large_test reserves so many pages" try_aarch64 --test //tests/kernels:large_test
expect 2 "'01_single_gpu' is no release" try_system 01_single_gpu --bits

# All that follows is right but for the machine.
expect 1 "aarch64-linux-gnu-g++ is missing: apt-get install g++-aarch64-linux-gnu" try_aarch64 --bits
fake aarch64-linux-gnu-g++ ''
expect 1 "qemu-aarch64 is missing: apt-get install qemu-user" try_aarch64 --test //tests/kernels:gelu_test --jobs=1
fake uname 'echo aarch64'
expect 1 "this CPU is aarch64" try_aarch64 01_single_gpu --steps 2
