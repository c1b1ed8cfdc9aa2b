// Lesson 10 on the device of this build, by NCCL and staged, against the CPU.

#include "tests/lessons/device.h"
#include "lessons/10_mixed_precision/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;
using Mixed = MixedPrecisionTrainer;

// In both precisions, with and without ZeRO-1 and gradients rounded before their reduction.
void check_on_device(DeviceType device, Communicator& all, MemorySource* registered) {
  for (DType dtype : {DType::bf16, DType::fp16}) {
    RunConfig config = on_device(equivalence_config(dtype, 2), device);
    config.global_batch_size = 8;  // few: there are twelve runs
    for (size_t zero_stage : {0, 1}) {
      require_cpu_gradients<Mixed>(config, all, registered, {.zero = {.stage = zero_stage}});
    }
    require_cpu_gradients<Mixed>(config, all, registered, {.reduce = {dtype}});
  }
}

TEST_CASE("staged: the CPU's gradients") { run_staged(check_on_device); }

TEST_CASE("NCCL: the CPU's gradients") { run_by_nccl(check_on_device); }

}  // namespace
}  // namespace ladder
