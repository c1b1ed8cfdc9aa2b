// Lesson 16 on the device of this build, staged and by NCCL, computes what lesson 01 computes on
// the CPU.

#include "tests/lessons/device.h"
#include "lessons/16_pipeline_schedules/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

// 6 micro-batches on 3 stages.
RunConfig device_config(DeviceType device) {
  RunConfig config = on_device(split_config(DType::fp64, 1), device);
  config.global_batch_size = 6;
  return config;
}

void check_on_device(DeviceType device, Communicator& all, MemorySource* registered) {
  const RunConfig config = device_config(device);
  const Record oracle = record_oracle(on_device(config, DeviceType::cpu));
  for (Order order : {Order::interleaved, Order::zb_h1, Order::zb_v}) {
    INFO(name_of(order));
    check_run_and_traffic<ScheduleTrainer>(oracle, config, all, registered, {.order = order});
  }
}

TEST_CASE("staged: lesson 01's numbers") { run_staged(check_on_device); }

TEST_CASE("NCCL: lesson 01's numbers") { run_by_nccl(check_on_device); }

TEST_CASE("in bf16 the CPU's gradients") {
  run_staged([](DeviceType device, Communicator& all, MemorySource*) {
    RunConfig config = device_config(device);
    config.dtype = DType::bf16;
    require_cpu_gradients<ScheduleTrainer>(config, all, nullptr, {.order = Order::zb_v});
  });
}

}  // namespace
}  // namespace ladder
