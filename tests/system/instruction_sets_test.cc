// LADDER_ISA: the CPU's kernels for AVX2 and for AVX-512 compute the same bits.
#include <filesystem>

#include "tests/catch.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const Flags kFlags = {"--steps", "2", "--threads", "2", "--evaluate-every", "0", "--sample", "0"};

ProcessResult run(const std::string& instructions, const Flags& flags, const Scratch& folder) {
  return run_process(Flags{lesson_path("10_mixed_precision")} + kFlags + flags,
                     {.folder = folder.path(), .environment = {{"LADDER_ISA", instructions}}});
}

TEST_CASE("LADDER_ISA: dumps of v3 and v4 are equal to the bit") {
  const std::string version = run_process({lesson_path("10_mixed_precision"), "--version"}).out;
  if (version.find("x86-64-v4") == std::string::npos) {
    WARN("skipped: this CPU has no AVX-512");
    return;
  }
  // 75 tokens and heads of 20: no length is a whole number of vectors.
  const std::vector<Flags> models = {
      {"--model", "nano-llama", "--sequence-length", "75"},
      {"--layers", "2", "--heads", "3", "--hidden", "60", "--sequence-length", "75"}};
  for (const Flags& model : models) {
    for (const std::string dtype : {"fp32", "fp64", "bf16", "fp16"}) {
      const Scratch folder;
      for (const std::string instructions : {"v3", "v4"}) {
        const Flags flags = model + Flags{"--dtype", dtype, "--dump", instructions};
        const ProcessResult result = run(instructions, flags, folder);
        CAPTURE(model, dtype, instructions, result.err);
        REQUIRE(result.status == 0);
      }
      CAPTURE(model, dtype);
      const std::string name = "step_000002.safetensors";
      CHECK(read_text(folder.path() / "v3" / name) == read_text(folder.path() / "v4" / name));
    }
  }
}

TEST_CASE("LADDER_ISA that is none is refused") {
  const Scratch folder;
  check_user_error(run("v5", {"--model", "nano"}, folder), {"LADDER_ISA", "v5", "v3 or v4"});
}

}  // namespace
}  // namespace ladder
