#!/usr/bin/env bash
# The scripts of tools/bundle with programs that only say that they ran: what report runs, in which order,
# within which time, and what it says where something is missing; and what the bundle's check of versions
# refuses.
# shellcheck disable=SC2016 # fake programs are written in single quotes
set -euo pipefail

tools=$PWD/tools
cd "$TEST_TMPDIR"
bundle=$PWD/bundle
mkdir -p path bundle/{lib,tools,lessons/{01_single_gpu,02_ddp,05_zero3},kernels,tests/{kernels,common/comm}} cuda
cp "$tools"/publish/* bundle
sed -i '/^  printf .* \/usr\/local\/cuda\//d' bundle/environment # whatever this machine has there
export PATH=$PWD/path:$PATH LD_LIBRARY_PATH=$PWD/cuda FAKES=$PWD

# fake FILE COMMANDS: a program that runs them.
fake() {
  printf '#!/bin/bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
# ran FILE: a program that only notes that it ran, with its flags.
ran() { fake "$bundle/$1" "echo '$1' \"\$@\" >>'$PWD/log'; echo 'said by $1'"; }

all_is_well() {
  rm -rf path/* out log
  touch cuda/{libcublas.so.13,libcublasLt.so.13,libnccl.so.2}
  fake path/nvidia-smi 'case $* in
    *=name*) printf "H100\nH100\n" ;;
    *=driver_version*) printf "580.65.06\n580.65.06\n" ;;
    *) echo "CUDA Version: 13.0" ;;
  esac'
  fake path/getconf 'echo glibc 2.35'
  fake path/df 'printf "Avail\n 4096\n"'
  fake path/python3 '[[ $* == *"import sys, torch"* ]]'
  fake path/ncu 'echo ncu >>"$FAKES/log"'
  fake path/compute-sanitizer 'echo "$4 ${5##*/}" >>"$FAKES/log"; echo "========= ERROR SUMMARY: 0 errors"'
  ran kernels/benchmark
  fake bundle/lessons/01_single_gpu/benchmark 'echo steps >>"$FAKES/log"
    echo "step/gpt2_124M/B16_T1024/bf16/iterations:20 41 ms tokens/s=397k"
    echo "step/gpt2_124M/B16_T1024/bf16/round_logits/iterations:20 33 ms tokens/s=504k"'
  fake bundle/lessons/01_single_gpu/01_single_gpu 'if [[ $1 == --version ]]; then echo "revision 1"; else
    echo "step ${LADDER_TIME_KERNELS-}" >>"$FAKES/log"; fi'
  for lesson in 02_ddp 05_zero3; do ran lessons/$lesson/$lesson; done
  ran tests/kernels/a_test
  ran tests/common/comm/device_program
  mkdir -p bundle/tools/measure
  ran tools/measure/pytorch_gpt2.py
  fake bundle/tools/mpirun 'shift 2; exec "$@"'
  printf 'kernels/benchmark\nlessons/01_single_gpu/benchmark\n' >bundle/benchmarks
  printf 'tests/kernels/a_test 1\ntests/common/comm/device_program 2\n' >bundle/tests/list
}

fail() {
  echo "$1"
  [[ ! -e said ]] || { echo "said:" && cat said; }
  [[ ! -e out/report.txt ]] || { echo "report.txt:" && cat out/report.txt; }
  exit 1
}
# report STATUS [FLAG...]: what it says is in `said`.
report() {
  local status=0
  : >log
  bundle/report out "${@:2}" >said 2>&1 || status=$?
  ((status == $1)) || fail "status $status, expected $1"
}
has() { grep -qF -- "$1" "${2:-out/report.txt}" || fail "nowhere: $1"; }
# parts NAME...: what ran, in this order; each program stands for its part.
parts() {
  local seen
  seen=$(sed -E 's/ .*//; s|.*/||' log | uniq | xargs)
  [[ $seen == "$*" ]] || fail "ran: $seen; expected: $*"
}
all="benchmark steps step ncu pytorch_gpt2.py 02_ddp 05_zero3 device_program a_test device_program \
memcheck racecheck initcheck synccheck"

# Everything once, in the order that matters most, and not again.
all_is_well
report 0
# shellcheck disable=SC2086 # a list
parts $all
has "step 1" log # LADDER_TIME_KERNELS
has "ok      2 visible: 2 x H100"
has "ok      driver 580.65.06, needed is 580"
has "ok      glibc 2.35"
has "ok      programs start: revision 1"
has "MFU of gpt2_124M/B16_T1024/bf16: 34.3% with all of attention"
has "MFU of gpt2_124M/B16_T1024/bf16/round_logits: 43.6% with all of attention"
sections=$(sed -nE 's/^== ([a-z0-9_]+)(: .*)?$/\1/p' out/report.txt | xargs)
[[ $sections == "checks machine kernels steps kernel_times ncu pytorch ddp zero3 nccl tests sanitizer" ]] ||
  fail "sections: $sections"
report 0
parts

# A part whose time is over is ended, with what it has started, and the next ones begin. What it lacked
# runs the next time.
all_is_well
fake bundle/kernels/benchmark 'echo kernels >>"$FAKES/log"; sleep 98765 & sleep 98765'
report 1 --minutes 0.25
has "== kernels: not finished"
has "its time was over)"
! pgrep -f "sleep 98765" >/dev/null || fail "it still runs"
# shellcheck disable=SC2086 # a list
parts kernels ${all#benchmark}
ran kernels/benchmark
report 0
parts benchmark
has "said by kernels/benchmark"
! grep -qF "not finished" out/report.txt || fail "it was finished"

# So do the sanitizer's programs: those that are done stay.
all_is_well
fake path/compute-sanitizer 'echo "$4" >>"$FAKES/log"; [[ $4 == memcheck ]] || sleep 98765'
report 1 --minutes 0.1
has "== sanitizer: not finished"
fake path/compute-sanitizer 'echo "$4" >>"$FAKES/log"'
report 0
parts racecheck initcheck synccheck

# What fails is said, and the others run.
all_is_well
fake bundle/tests/kernels/a_test 'echo a_test >>"$FAKES/log"; echo wrong; exit 3'
report 1
# shellcheck disable=SC2086 # a list
parts $all
has "FAILED  tests/kernels/a_test, status 3"
has "1 passed, 1 failed"
report 1 # still
parts

# Whoever interrupts it has a report of what there is.
all_is_well
fake bundle/tests/kernels/a_test 'echo a_test >>"$FAKES/log"; sleep 98765'
: >log
bundle/report out >said 2>&1 &
until grep -q a_test log; do sleep 0.1; done
kill $!
! wait $! || fail "it was interrupted"
has "== tests: not run"
has "said by kernels/benchmark"
for ((tries = 0; tries < 50; ++tries)); do pgrep -f "sleep 98765" >/dev/null || break; sleep 0.1; done
((tries < 50)) || fail "it still runs"
ran tests/kernels/a_test
report 0
parts a_test device_program memcheck racecheck initcheck synccheck

# One GPU, and nothing to compare or profile with.
all_is_well
fake path/nvidia-smi 'case $* in *=name*) echo H200 ;; *=driver_version*) echo 590.1 ;; esac'
fake path/python3 'exit 1'
rm path/{ncu,compute-sanitizer}
report 0
parts benchmark steps step a_test device_program
for part in ddp zero3 nccl; do has "== $part: skipped: one GPU"; done
has "== pytorch: skipped: python3 has no PyTorch with CUDA"
has "== ncu: skipped: no ncu (Nsight Compute) here"
has "== sanitizer: skipped: no compute-sanitizer here"

# GPUs that CUDA_VISIBLE_DEVICES hides do not count; their peak is that of the GPU that is left.
all_is_well
fake path/nvidia-smi 'case $* in
  *=name*) printf "NVIDIA H100 80GB HBM3\nNVIDIA A100-SXM4-80GB\nNVIDIA A100-SXM4-80GB\nNVIDIA T1000\n" ;;
  *=uuid*) printf "GPU-aa11\nGPU-ab22\nGPU-bb33\nGPU-cc44\n" ;;
  *=compute_cap*) printf "9.0\n8.0\n8.0\n7.5\n" ;;
  *=driver_version*) echo 590.1 ;;
esac'
fake bundle/lessons/01_single_gpu/01_single_gpu 'printf "revision 1\nCUDA      13.0 for sm_75,sm_90\n"'
fake bundle/lessons/02_ddp/02_ddp 'echo "02_ddp $*" >>"$FAKES/log"'
fake bundle/tools/mpirun 'echo "mpirun $2" >>"$FAKES/log"; shift 2; exec "$@"'
# shown VALUE NUMBER FIRST MFU: so many GPUs are seen, the first with this peak.
shown() {
  rm -rf out
  CUDA_VISIBLE_DEVICES=$1 report 0
  has "ok      $2 visible: "
  has "$3" out/steps.txt
  if (($2 == 1)); then has "== ddp: skipped: one GPU"; else has "mpirun $2" log; fi
}
shown 0 1 "of 989 TFLOP/s"
shown 1,2 2 "of 312 TFLOP/s"
shown 2,0,-1,1 2 "of 312 TFLOP/s"
shown 3 1 "no MFU: the peak of NVIDIA T1000 is not known here"
shown GPU-bb,GPU-aa11 2 "of 312 TFLOP/s"
shown 0,9,1 1 "of 989 TFLOP/s"
shown MIG-5 1 "no MFU"

# blocked WHY: nothing of ours runs, and why stands in the report.
blocked() {
  report 1
  parts
  has "FAILED  $1"
  has "== kernels: skipped: $1"
  has "== tests: skipped: $1"
  has "== machine"
}
all_is_well
fake path/nvidia-smi 'echo "NVIDIA-SMI has failed"; exit 9'
blocked "no GPU: nvidia-smi says 'NVIDIA-SMI has failed'"
all_is_well
fake path/nvidia-smi 'case $* in *=name*) echo A100 ;; *=driver_version*) echo 570.172 ;; *) echo "CUDA Version: 12.8" ;; esac'
blocked "driver 570.172 is too old: CUDA 13 needs 580 or newer"
fake path/nvidia-smi 'case $* in *=name*) echo A100 ;; *=driver_version*) echo 570.172 ;; *) echo "CUDA Version: 13.0" ;; esac'
report 0 # cuda-compat
all_is_well
for none in "" -1 9 GPU-dd; do
  CUDA_VISIBLE_DEVICES=$none blocked "no GPU: CUDA_VISIBLE_DEVICES=$none leaves none"
done
fake path/nvidia-smi 'case $* in *=name*) echo V100 ;; *=compute_cap*) echo 7.0 ;; *=driver_version*) echo 590.1 ;; esac'
fake bundle/lessons/01_single_gpu/01_single_gpu 'printf "revision 1\nCUDA      13.0 for sm_80,sm_90\n"'
blocked "a GPU's compute capability is 7.0, and the programs have code for sm_80,sm_90"
all_is_well
fake path/getconf 'echo glibc 2.31'
blocked "glibc 2.31 is too old: needed is 2.35"
all_is_well
fake bundle/lessons/01_single_gpu/01_single_gpu 'echo "version GLIBCXX_3.4.30 not found" >&2; exit 1'
blocked "programs do not start: version GLIBCXX_3.4.30 not found"
all_is_well
fake path/df 'printf "Avail\n 64\n"'
report 1
has "warning /dev/shm has 64 MiB free"
has "said by kernels/benchmark"

all_is_well
rm cuda/libnccl.so.2
blocked "no libnccl.so.2: install CUDA 13 and NCCL"

# As the help says it is called.
(cd bundle && ./report --minutes=1 &>/dev/null) || :
[[ -e bundle/results/report.txt ]] || fail "no results/report.txt"
for flags in "--minutes" "--minutes x" "--hours 3"; do
  status=0
  # shellcheck disable=SC2086 # a list
  bundle/report $flags &>/dev/null || status=$?
  ((status == 2)) || fail "$flags: status $status"
done

# needs VERSION SYMBOL: as objdump shows what a library needs.
needs() {
  fake path/objdump "echo 'Version References:'; echo '  required from libc.so.6:'
    echo '    0x069691b6 0x00 05 $1'; echo 'DYNAMIC SYMBOL TABLE:'
    echo '0000000000000000      DF *UND*  0000000000000000 ($1) $2'"
}
mkdir checked
printf '\x7fELF' >checked/lib.so
touch checked/text.so # not looked at
for version in GLIBC_2.35 GLIBC_2.4 GLIBC_2.2.5 GLIBCXX_3.4.30 GLIBCXX_3.4.9; do
  needs $version symbol
  "$tools/bundle" --check checked || fail "$version is old enough"
done
for version in GLIBC_2.36 GLIBC_3.0 GLIBC_ABI_DT_RELR GLIBCXX_3.4.31; do
  needs $version symbol
  ! "$tools/bundle" --check checked 2>said || fail "$version is too new"
  has "$version checked/lib.so: symbol" said
done
fake path/objdump 'exit 1'
! "$tools/bundle" --check checked 2>said || fail "nothing was checked"
