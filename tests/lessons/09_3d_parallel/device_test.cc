// Lessons 07 to 09 on the device of this build, by NCCL and staged, compute what lesson 01 computes
// on the CPU.
#include <catch2/catch.hpp>

#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "tests/lessons/device.h"

namespace ladder {
namespace {

using namespace testing;

// With 4 ranks 2 or 4 micro-batches on every pipeline.
RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(split_config(DType::fp64, 1), device);
  config.global_batch_size = 4;
  return config;
}

ThreeDTrainer::Flags grid(size_t tensor, size_t pipeline, size_t zero_stage = 0) {
  ThreeDTrainer::Flags flags;
  flags.tensor_parallel_size = tensor;
  flags.pipeline.pipeline_parallel_size = pipeline;
  flags.zero.stage = zero_stage;
  return flags;
}

// All lessons on the ranks of `all`; what they communicate is as predicted too.
void check_lessons(const RunConfig& config, Communicator& all, MemorySource* registered) {
  RunConfig on_host = config;
  on_host.device = DeviceType::cpu;
  const Record oracle = record_oracle(on_host);
  const auto check = [&]<class T>(const typename T::Flags& flags) {
    const auto group = all.split(0);  // with a ledger of its own
    const Record record = checked_run<T>(oracle, config, *group, registered, flags);
    for (const auto& [key, predicted] : record.prediction.step) {
      INFO(name_of(key));
      CHECK(record.communicated.at(key) == predicted.times(kSteps));
    }
  };
  check.operator()<TensorParallelTrainer>({});
  check.operator()<PipelineTrainer>({});
  check.operator()<ThreeDTrainer>(grid(2, 2));
  check.operator()<ThreeDTrainer>(grid(2, 1, 1));
  check.operator()<ThreeDTrainer>(grid(1, 2, 1));
}

TEST_CASE("staged: lesson 01's numbers") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, 10'000);  // several pieces a message
  check_lessons(device_config(*device), *all, nullptr);
}

TEST_CASE("NCCL: lesson 01's numbers") {
  const auto device = device_for_nccl();
  if (!device) return;
  testing::Ranks ranks(*device);
  NcclMemory memory(*device);
  const auto all = nccl_world(ranks, &memory);
  check_lessons(device_config(*device), *all, &memory);
}

TEST_CASE("in bf16 the CPU's gradients") {
  const auto device = device_for_tests();
  if (!device) return;
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, 10'000);
  RunConfig config = device_config(*device);
  config.dtype = DType::bf16;
  require_cpu_gradients<TensorParallelTrainer>(config, *all, nullptr);
  require_cpu_gradients<PipelineTrainer>(config, *all, nullptr);
  require_cpu_gradients<ThreeDTrainer>(config, *all, nullptr, grid(2, 2));
  require_cpu_gradients<ThreeDTrainer>(config, *all, nullptr, grid(2, 1, 1));
}

}  // namespace
}  // namespace ladder
