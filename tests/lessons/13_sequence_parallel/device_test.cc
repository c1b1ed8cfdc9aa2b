// Lesson 13 on the device of this build, by NCCL and staged, computes what lesson 01 computes on
// the CPU.
#include <catch2/catch.hpp>

#include "lessons/13_sequence_parallel/trainer.h"
#include "tests/lessons/device.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(split_config(DType::fp64, 1), device);
  config.global_batch_size = 2;
  return config;
}

void check_on_device(const RunConfig& config, Communicator& all, MemorySource* registered) {
  const Record oracle = record_oracle(on_device(config, DeviceType::cpu));
  for (const char* gathered : {"again", "keep"}) {
    INFO("--gathered " << gathered);
    const SequenceParallelTrainer::Flags flags = {.tensor = {}, .tokens = {.gathered = gathered}};
    const auto group = all.split(0);  // with a ledger of its own
    const Record record =
        checked_run<SequenceParallelTrainer>(oracle, config, *group, registered, flags);
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
  const auto all = staged_world(ranks, 10'000);  // several pieces a message
  check_on_device(device_config(*device), *all, nullptr);
}

TEST_CASE("NCCL: lesson 01's numbers") {
  const auto device = device_for_nccl();
  if (!device) return;
  testing::Ranks ranks(*device);
  NcclMemory memory(*device);
  const auto all = nccl_world(ranks, &memory);
  check_on_device(device_config(*device), *all, &memory);
}

TEST_CASE("in bf16 the CPU's gradients") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, 10'000);
  RunConfig config = device_config(*device);
  config.dtype = DType::bf16;
  require_cpu_gradients<SequenceParallelTrainer>(config, *all, nullptr);
}

}  // namespace
}  // namespace ladder
