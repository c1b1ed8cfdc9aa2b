// Lessons 03 to 06 on the device of this build, by NCCL and staged, compute what lesson 01 computes
// on the CPU.

#include "tests/lessons/device.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

RunConfig device_config(DeviceType device, size_t micro_batch_size) {
  return on_device(equivalence_config(DType::fp64, micro_batch_size), device);
}

const OffloadTrainer::Flags kOffloadAll = {
    .zero_stage = 3, .offload_parameters = true, .gather = {}};

TEST_CASE("staged: lesson 01's numbers, and the bits of one another") {
  const auto device = device_for_tests();
  if (!device) return;
  const Record oracle = record_oracle(DType::fp64);
  testing::Ranks ranks(*device);
  const auto all = staged_world(ranks, 10'000);  // several pieces a unit
  for (size_t micro_batch : {4, 12}) {           // three micro-batches a step and one
    INFO("micro-batch " << micro_batch);
    const RunConfig config = device_config(*device, micro_batch);
    const auto require_same = [&](const Record& a, const Record& b) {
      if (all->rank() == 0) require_none(differences(a, b, {}, config.optimizer));
    };
    const Record zero1 = checked_run<Zero1Trainer>(oracle, config, *all, nullptr);
    const Record zero2 = checked_run<Zero2Trainer>(oracle, config, *all, nullptr);
    require_same(zero2, checked_run<Zero3Trainer>(oracle, config, *all, nullptr));
    require_same(zero2, checked_run<OffloadTrainer>(oracle, config, *all, nullptr));
    require_same(zero2, checked_run<OffloadTrainer>(oracle, config, *all, nullptr, kOffloadAll));
    if (micro_batch == 12) require_same(zero1, zero2);
  }
}

TEST_CASE("NCCL: lesson 01's numbers, and the same bits twice") {
  run_by_nccl([](DeviceType device, Communicator& all, MemorySource* memory) {
    const Record oracle = record_oracle(DType::fp64);
    const RunConfig config = device_config(device, 4);
    checked_run<Zero1Trainer>(oracle, config, all, memory);
    checked_run<Zero2Trainer>(oracle, config, all, memory);
    const Record once = checked_run<Zero3Trainer>(oracle, config, all, memory);
    const Record again = checked_run<Zero3Trainer>(oracle, config, all, memory);
    if (all.rank() == 0) require_none(differences(once, again, {}, config.optimizer));
    checked_run<OffloadTrainer>(oracle, config, all, memory);
    checked_run<OffloadTrainer>(oracle, config, all, memory, kOffloadAll);
  });
}

TEST_CASE("lessons 03 to 05 in bf16: the CPU's gradients") {
  run_staged([](DeviceType device, Communicator& all, MemorySource*) {
    RunConfig config = on_device(equivalence_config(DType::bf16, 2), device);
    config.global_batch_size = 8;
    require_cpu_gradients<Zero1Trainer>(config, all, nullptr);
    require_cpu_gradients<Zero2Trainer>(config, all, nullptr);
    require_cpu_gradients<Zero3Trainer>(config, all, nullptr);
  });
}

}  // namespace
}  // namespace ladder
