// Lesson 14 on the device of this build, staged and by NCCL, computes what lesson 01 computes on
// the CPU.
#include <catch2/catch.hpp>

#include "lessons/14_context_parallel/trainer.h"
#include "tests/lessons/device.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(equivalence_config(DType::fp64, 3), device);
  config.global_batch_size = 6;
  config.model.sequence_length = 13;
  return config;
}

void check_lesson(const RunConfig& config, Communicator& all, MemorySource* registered) {
  const Record oracle = record_oracle(on_device(config, DeviceType::cpu));
  for (Slicing slices : {Slicing::zigzag, Slicing::contiguous}) {
    const auto group = all.split(0);  // with a ledger of its own
    const Record record =
        checked_run<ContextParallelTrainer>(oracle, config, *group, registered, {.slices = slices});
    for (const auto& [key, predicted] : record.prediction.step) {
      INFO(name_of(key));
      CHECK(record.communicated.at(key) == predicted.times(kSteps));
    }
  }
}

TEST_CASE("staged: lesson 01's numbers") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, 1'000);  // several pieces a message
  check_lesson(device_config(*device), *all, nullptr);
}

TEST_CASE("NCCL: lesson 01's numbers") {
  const auto device = device_for_nccl();
  if (!device) return;
  testing::Ranks ranks(*device);
  NcclMemory memory(*device);
  const auto all = nccl_world(ranks, &memory);
  check_lesson(device_config(*device), *all, &memory);
}

TEST_CASE("in bf16 the CPU's gradients") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, 10'000);
  RunConfig config = device_config(*device);
  config.dtype = DType::bf16;
  require_cpu_gradients<ContextParallelTrainer>(config, *all, nullptr);
}

}  // namespace
}  // namespace ladder
