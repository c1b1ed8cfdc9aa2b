// Lesson 15 as a user runs it: its output, checkpoints that another layout reads, flags that cannot
// be.

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

Flags command(const Flags& flags) {
  return Flags{lesson_path("15_expert_parallel"),
               "--model",
               "nano",
               "--threads",
               "1",
               "--evaluate-every",
               "0",
               "--dtype",
               "fp64",
               "--sample",
               "16"} +
         flags;
}

TEST_CASE("15: it trains, as predicted, and says how the routers divide the tokens") {
  for (const char* factor : {"0", "1"}) {
    const ProcessResult result =
        run_ranks(4, command({"--steps", "3", "--experts", "8", "--expert-parallel-size", "2",
                              "--capacity-factor", factor}));
    CAPTURE(result.out);
    require_success(result);
    CHECK_THAT(result.out,
               ContainsSubstring("expert activation all_to_all") && !ContainsSubstring("differs"));
    CHECK_THAT(result.out,
               ContainsSubstring("a rank holds 4") && ContainsSubstring("choices of each expert"));
    const std::string none = "dropped: 0 of 1024 choices";
    if (std::string(factor) == "0") {
      CHECK_THAT(result.out, ContainsSubstring("nobody is dropped") && ContainsSubstring(none));
    } else {
      CHECK_THAT(result.out,
                 ContainsSubstring("takes 8 tokens of a sequence") && !ContainsSubstring(none));
    }
  }
}

TEST_CASE("15: a checkpoint goes on with other ranks, expert-parallel size and ZeRO stage") {
  const auto [stage, other_stage, other_size] =
      GENERATE(table<const char*, const char*, const char*>(
          {{"0", "1", "2"}, {"1", "0", "4"}, {"1", "1", "1"}}));
  CAPTURE(stage, other_stage, other_size);
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags all = {"--steps", "4", "--checkpoint", "kept"};
  const auto run = [&](size_t ranks, const Flags& flags) {
    const ProcessResult result = run_ranks(ranks, command(flags), options);
    CAPTURE(result.out);
    require_success(result);
    return result.out;
  };
  const std::string whole = run(2, {"--steps", "4", "--expert-parallel-size", "1"});
  run(2, Flags{"--expert-parallel-size", "2", "--checkpoint-every", "2", "--keep", "2",
               "--zero-stage", stage} +
             all);
  std::filesystem::remove_all(folder.path() / "kept" / "step_00000004");
  const std::string resumed =
      run(4, Flags{"--expert-parallel-size", other_size, "--resume", "--zero-stage", other_stage} +
                 all);
  const std::string line = whole.substr(whole.find("step 4/4"), 22);
  CHECK_THAT(resumed, ContainsSubstring(line) && !ContainsSubstring("step 2/4"));
  // A model without experts, or with others, is another model.
  const ProcessResult other =
      run_ranks(2, command(Flags{"--experts", "4", "--resume"} + all), options);
  CHECK(other.status == 2);
  CHECK_THAT(other.err, ContainsSubstring("--experts 8 --experts-per-token 2"));
}

TEST_CASE("15: a folder of transformers has experts, and as many ranks share them as divide both") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags made = {"--model", "nano-llama", "--experts", "6",        "--moe-every", "1",
                      "--steps", "1",          "--export",  "exported", "--threads",   "1"};
  require_success(
      run_ranks(1, Flags{lesson_path("15_expert_parallel"), "--sample", "0"} + made, options));
  const auto run = [&](const Flags& flags) {
    return run_ranks(4,
                     Flags{lesson_path("15_expert_parallel"), "--init", "exported", "--steps", "1",
                           "--sample", "0", "--threads", "1"} +
                         flags,
                     options);
  };
  const ProcessResult result = run({"--checkpoint", "kept", "--export", "again"});
  CAPTURE(result.out);
  require_success(result);
  CHECK_THAT(result.out, ContainsSubstring("experts  6 in every block") &&
                             ContainsSubstring("a rank holds 3") &&
                             ContainsSubstring("\n  layers.1: balance "));
  // Each rank has written a part of the checkpoint.
  require_success(run_process(
      {program_path("tools/state/checkpoints/checkpoints"), "export", "kept", "same"}, options));
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"}) {
    CAPTURE(file);
    CHECK(read_text(folder.path() / "same" / file) == read_text(folder.path() / "again" / file));
  }
  const ProcessResult refused = run({"--expert-parallel-size", "4"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.err, ContainsSubstring("--expert-parallel-size 4 does not divide 6 experts"));
}

TEST_CASE("15: flags that cannot be") {
  const auto refused = [](size_t ranks, const Flags& flags, const std::string& why) {
    const ProcessResult result = run_ranks(ranks, command(flags));
    CAPTURE(result.err);
    CHECK(result.status == 2);
    CHECK_THAT(result.err, ContainsSubstring(why));
  };
  refused(2, {"--expert-parallel-size", "3"}, "--expert-parallel-size 3 does not divide 2 ranks");
  refused(2, {"--experts", "5", "--expert-parallel-size", "2"}, "does not divide 5 experts");
  refused(1, {"--experts", "2", "--experts-per-token", "3"}, "there are only --experts 2");
  refused(2, {"--zero-stage", "2"}, "--zero-stage");
  refused(1, {"--moe-every", "3"}, "the model has only 2 blocks");
  refused(1, {"--recompute", "block"}, "--recompute: not in this lesson");
  refused(1, {"--offload-activations"}, "--offload-activations: not in this lesson");
  refused(1, {"--export", "out"}, "--export out: the model has experts");
}

}  // namespace
}  // namespace ladder
