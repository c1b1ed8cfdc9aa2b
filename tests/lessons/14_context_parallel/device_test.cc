// Lesson 14 on the device of this build, staged and by NCCL, computes what lesson 01 computes on
// the CPU.

#include "tests/lessons/device.h"
#include "lessons/14_context_parallel/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(equivalence_config(DType::fp64, 3), device);
  config.global_batch_size = 6;
  config.model.sequence_length = 13;
  return config;
}

// Three heads of 16 elements, one for each rank.
RunConfig device_config_of_ulysses(DeviceType device) {
  RunConfig config = device_config(device);
  config.model.num_heads = 3;
  config.model.hidden = 48;
  return config;
}

void check_on_device(DeviceType device, Communicator& all, MemorySource* registered) {
  const auto check = [&](const RunConfig& config, ContextFlags::Method method) {
    const Record oracle = record_oracle(on_device(config, DeviceType::cpu));
    for (Slicing slices : {Slicing::zigzag, Slicing::contiguous}) {
      check_run_and_traffic<ContextParallelTrainer>(
          oracle, config, all, registered, {.context = {.attention = method, .slices = slices}});
    }
  };
  check(device_config(device), ContextFlags::Method::ring);
  check(device_config_of_ulysses(device), ContextFlags::Method::ulysses);
}

TEST_CASE("staged: lesson 01's numbers") { run_staged(check_on_device, 1'000); }

TEST_CASE("NCCL: lesson 01's numbers") { run_by_nccl(check_on_device); }

TEST_CASE("in bf16 the CPU's gradients") {
  run_staged([](DeviceType device, Communicator& all, MemorySource*) {
    RunConfig config = device_config(device);
    config.dtype = DType::bf16;
    require_cpu_gradients<ContextParallelTrainer>(config, all, nullptr);
    config = device_config_of_ulysses(device);
    config.dtype = DType::bf16;
    require_cpu_gradients<ContextParallelTrainer>(
        config, all, nullptr, {.context = {.attention = ContextFlags::Method::ulysses}});
  });
}

}  // namespace
}  // namespace ladder
