// --recompute and lesson 11 as a user runs them: what is refused, and what the header says.

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"

namespace ladder {
namespace {

const Flags kNano = {"--model", "nano", "--layers", "4", "--threads", "1"};

TEST_CASE("11: modes and budgets that cannot be") {
  const Flags lesson = Flags{lesson_path("11_activation_checkpointing")} + kNano;
  check_refused(1, lesson + Flags{"--recompute", "all"},
                {"--recompute all", "none, cheap, attention, mlp, block, whole, or every-K"});
  check_refused(1, lesson + Flags{"--recompute=every-0"},
                {"--recompute every-0", "such as every-2"});
  check_refused(1, lesson + Flags{"--recompute=every-5"},
                {"--recompute every-5", "only 4 transformer blocks", "every-4 would do"});
  check_refused(1, lesson + Flags{"--activation-memory", "1MiB"},
                {"--activation-memory 1048576", "take 1392640,", "--micro-batch-size"});
  check_refused(1, lesson + Flags{"--activation-memory", "2MiB", "--recompute", "mlp"},
                {"--activation-memory", "--recompute mlp", "one of them"});
  check_refused(2,
                Flags{lesson_path("09_3d_parallel")} + kNano +
                    Flags{"--pipeline-parallel-size", "2", "--recompute", "every-3"},
                {"--recompute every-3", "only 2 transformer blocks", "every-2 would do"});
}

TEST_CASE("11: the smallest budget works") {
  const ProcessResult run =
      run_process(Flags{lesson_path("11_activation_checkpointing")} + kNano +
                  Flags{"--activation-memory", "1392640", "--steps", "1", "--sample", "0"});
  require_success(run);
  CHECK_THAT(run.out,
             ContainsSubstring("takes    1,392,640 bytes of activations instead of 4,378,624"));
}

}  // namespace
}  // namespace ladder
