#!/usr/bin/env bash
# tools/compile_commands in a tree of its own, with a Bazel that gives the same answer each time.
set -euo pipefail

tree=$TEST_TMPDIR/tree
mkdir -p "$tree"/{tools,path,kernels/cuda/wide}
cp tools/compile_commands "$tree/tools"
touch "$tree"/kernels/cuda/{b_c.cu,wide/d.cu}
# A source of two targets, two kernels, and a copy that an exercise has edited.
cat >"$tree/path/bazel" <<'END'
#!/bin/sh
test ! -e fails || exit 1
test "$1" = aquery || { echo /base/execroot/ladder; exit; }
cat <<'ANSWER'
{"actions": [
  {"arguments": ["gcc", "-DX", "-fsanitize=thread", "-c", "common/a.cc", "-o", "c.o"]},
  {"arguments": ["gcc", "-DX", "-c", "common/a.cc", "-o", "a.o"]},
  {"arguments": ["gcc", "-isystem", "external/mpi", "-iquote", "bazel-out/k8-opt/bin",
                 "-MD", "-MF", "d.d", "-fno-canonical-system-headers", "-c",
                 "bazel-out/k8-opt/bin/kernels/cuda_wide_d.cu.cc", "-o", "d.o"]},
  {"arguments": ["gcc", "-c", "bazel-out/k8-opt/bin/kernels/cuda_b_c.cu.cc", "-o", "b.o"]},
  {"arguments": ["gcc", "-c", "bazel-out/k8-opt/bin/zoo/zoo_02_source/a.cc", "-o", "z.o"]}
]}
ANSWER
END
printf '#!/bin/sh\necho /gcc/include\n' >"$tree/path/gcc"
chmod +x "$tree"/path/*
export PATH=$tree/path:$PATH
cd "$tree"

tools/compile_commands | grep -x "compile_commands.json: 3 sources"
python3 - <<'END'
import json, os
for_clang = ["-D__malloc__(...)=", "-idirafter", "/gcc/include"]
expected = {
    "common/a.cc": ["gcc", "-DX", *for_clang, "-c", "common/a.cc"],
    "kernels/cuda/b_c.cu": ["gcc", *for_clang, "-x", "c++", "-c", "kernels/cuda/b_c.cu"],
    "kernels/cuda/wide/d.cu": ["gcc", "-isystem", "/base/external/mpi", "-iquote",
                               "/base/execroot/ladder/bazel-out/k8-opt/bin", *for_clang, "-x", "c++",
                               "-c", "kernels/cuda/wide/d.cu"],
}
for entry in json.load(open("compile_commands.json")):
    assert entry["directory"] == os.getcwd(), entry
    assert entry["arguments"] == expected.pop(entry["file"]), entry
assert not expected, expected
END

touch fails
if said=$(tools/compile_commands 2>&1) || [[ $said != "tools/compile_commands: bazel info failed" ]]; then
  echo "a failure of Bazel: $said"
  exit 1
fi
