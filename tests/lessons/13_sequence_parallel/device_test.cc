// Lesson 13 on the device of this build, by NCCL and staged, computes what lesson 01 computes on
// the CPU.

#include "tests/lessons/device.h"
#include "lessons/13_sequence_parallel/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(split_config(DType::fp64, 1), device);
  config.global_batch_size = 2;
  return config;
}

void check_on_device(DeviceType device, Communicator& all, MemorySource* registered) {
  const RunConfig config = device_config(device);
  const Record oracle = record_oracle(on_device(config, DeviceType::cpu));
  for (const TokenFlags& tokens : {TokenFlags{.gathered = "again"}, {.gathered = "keep"}}) {
    INFO("--gathered " << tokens.gathered);
    check_run_and_traffic<SequenceParallelTrainer>(oracle, config, all, registered,
                                                   {.tensor = {}, .tokens = tokens});
  }
}

TEST_CASE("staged: lesson 01's numbers") { run_staged(check_on_device); }

TEST_CASE("NCCL: lesson 01's numbers") { run_by_nccl(check_on_device); }

TEST_CASE("in bf16 the CPU's gradients") {
  run_staged([](DeviceType device, Communicator& all, MemorySource*) {
    RunConfig config = device_config(device);
    config.dtype = DType::bf16;
    require_cpu_gradients<SequenceParallelTrainer>(config, all, nullptr);
  });
}

}  // namespace
}  // namespace ladder
