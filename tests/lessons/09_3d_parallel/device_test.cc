// Lessons 07 to 09 on the device of this build, by NCCL and staged, compute what lesson 01 computes
// on the CPU.

#include "tests/lessons/device.h"
#include "lessons/07_tensor_parallel/trainer.h"
#include "lessons/08_pipeline_parallel/trainer.h"
#include "lessons/09_3d_parallel/trainer.h"
#include "tests/catch.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;

// With 4 ranks 2 or 4 micro-batches on every pipeline.
RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(split_config(DType::fp64, 1), device);
  config.global_batch_size = 4;
  return config;
}

ThreeDTrainer::Flags grid(size_t tensor, size_t pipeline, size_t zero_stage = 0,
                          Order order = Order::one_f_one_b) {
  ThreeDTrainer::Flags flags;
  flags.tensor_parallel_size = tensor;
  flags.pipeline.pipeline_parallel_size = pipeline;
  flags.zero.stage = zero_stage;
  flags.pipeline.order = order;
  return flags;
}

// Lessons on the ranks of `all`, a sample of them; what they communicate is as predicted too.
void check_on_device(DeviceType device, Communicator& all, MemorySource* registered) {
  Sample sample(2, registered == nullptr ? 1 : 2);  // not the same staged and by NCCL
  const RunConfig config = device_config(device);
  const Record oracle = record_oracle(on_device(config, DeviceType::cpu));
  const auto check = [&]<class T>(const typename T::Flags& flags) {
    if (sample.takes()) check_run_and_traffic<T>(oracle, config, all, registered, flags);
  };
  check.operator()<TensorParallelTrainer>({});
  check.operator()<PipelineTrainer>({});
  check.operator()<ThreeDTrainer>(grid(2, 2));
  check.operator()<ThreeDTrainer>(grid(2, 1, 1));
  check.operator()<ThreeDTrainer>(grid(1, 2, 1));
  check.operator()<ThreeDTrainer>(grid(1, 2, 1, Order::interleaved));
  check.operator()<ThreeDTrainer>(grid(1, 2, 1, Order::zb_v));
  ThreeDTrainer::Flags halves = grid(2, 2, 0, Order::zb_h1);
  halves.sequence_parallel = true;
  check.operator()<ThreeDTrainer>(halves);
  ThreeDTrainer::Flags shared = grid(2, 1);
  shared.context.size = 2;
  shared.sequence_parallel = true;
  check.operator()<ThreeDTrainer>(shared);
}

TEST_CASE("staged: lesson 01's numbers") { run_staged(check_on_device); }

TEST_CASE("NCCL: lesson 01's numbers") { run_by_nccl(check_on_device); }

TEST_CASE("in bf16 the CPU's gradients") {
  run_staged([](DeviceType device, Communicator& all, MemorySource*) {
    RunConfig config = device_config(device);
    config.dtype = DType::bf16;
    require_cpu_gradients<TensorParallelTrainer>(config, all, nullptr);
    require_cpu_gradients<PipelineTrainer>(config, all, nullptr);
    require_cpu_gradients<ThreeDTrainer>(config, all, nullptr, grid(2, 2));
    require_cpu_gradients<ThreeDTrainer>(config, all, nullptr, grid(2, 1, 1));
  });
}

}  // namespace
}  // namespace ladder
