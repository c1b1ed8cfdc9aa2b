// Every lesson goes on from a dump of lesson 01, with sequences shorter than the dump's: each rank
// finds its part of the parameters in the file, and the first positions of it. At the end each
// exports the same model.

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

TEST_CASE("every lesson starts from a dump, with shorter sequences") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = {"--model",          "nano", "--dtype", "fp64", "--threads", "1",
                     "--evaluate-every", "0",    "--steps", "1"};
  require_success(run_single_gpu(run + Flags{"--sample", "0", "--dump", "first"}, options));

  const Flags from_dump = run + Flags{"--init",
                                      "first/step_000001.safetensors",
                                      "--sequence-length",
                                      "20",
                                      "--seed",
                                      "2",
                                      "--sample",
                                      "0",
                                      "--global-batch-size",
                                      "4",
                                      "--micro-batch-size",
                                      "1"};
  require_success(
      run_single_gpu(from_dump + Flags{"--dump", "one", "--export", "one_out"}, options));
  for (const std::string lesson :
       {"02_ddp", "03_zero1", "04_zero2", "05_zero3", "06_offload", "07_tensor_parallel",
        "08_pipeline_parallel", "09_3d_parallel", "10_mixed_precision", "13_sequence_parallel",
        "14_context_parallel", "16_pipeline_schedules"}) {
    CAPTURE(lesson);
    Flags command = Flags{lesson_path(lesson)} + from_dump +
                    Flags{"--dump", lesson, "--export", lesson + "_out"};
    if (lesson == "09_3d_parallel") command.insert(command.end(), {"--tensor-parallel-size", "2"});
    require_success(run_ranks(2, command, options));
    // The contract's bound between layouts in fp64, where rounding is some 1e-16.
    check_equal_dumps("one", lesson, "1e-11", options);
    // Rounded to fp32 they may differ by one unit of the last place, 2^-23 at most.
    check_equal_dumps("one_out/model.safetensors", lesson + "_out/model.safetensors", "1.2e-7",
                      options);
  }
}

}  // namespace
}  // namespace ladder
