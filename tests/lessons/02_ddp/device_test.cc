// Lessons 01 and 02 on the device of this build compute what lesson 01 computes on the CPU.

#include "tests/lessons/device.h"
#include "lessons/02_ddp/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

TEST_CASE("lesson 01 on a device: the gradients, parameters and moments of the CPU") {
  const auto device = device_for_tests();
  if (!device) return;
  const Record oracle = record_oracle(DType::fp64);
  const RunConfig config = on_device(equivalence_config(DType::fp64, 8), *device);
  Communicator alone(std::make_unique<OneRank>(*device));
  checked_run<SingleGpuTrainer>(oracle, config, alone, nullptr);
}

TEST_CASE("lesson 01 on a device with Muon: the CPU's numbers") {
  const auto device = device_for_tests();
  if (!device) return;
  RunConfig config = equivalence_config(DType::fp64, 24);
  config.optimizer.name = "muon";
  const Record oracle = record_oracle(config);
  Communicator alone(std::make_unique<OneRank>(*device));
  checked_run<SingleGpuTrainer>(oracle, on_device(config, *device), alone, nullptr);
}

TEST_CASE(
    "lesson 02 on devices, by NCCL and staged: lesson 01's on the CPU, and the same bits twice") {
  const auto device = device_for_tests();
  if (!device) return;
  const Record oracle = record_oracle(DType::fp64);
  const RunConfig config = on_device(equivalence_config(DType::fp64, 4), *device);
  const auto require_same = [&](const Record& a, const Record& b, const Bounds& bounds) {
    if (world().rank() == 0) require_none(differences(a, b, bounds, config.optimizer));
  };
  testing::Ranks ranks(*device);
  std::optional<Record> staged;
  {
    INFO("staged");
    const auto all = staged_world(ranks, 10'000);  // several pieces a bucket
    staged = record_run<DdpTrainer>(config, *all, nullptr, {.bucket_bytes = 20000});
    require_same(oracle, *staged, bounds_for(DType::fp64));
    // Sums in rank order, whatever the buckets.
    require_same(*staged, record_run<DdpTrainer>(config, *all, nullptr, {.naive = true}), {});
  }
  if (!device_for_nccl()) return;
  INFO("NCCL");
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  const DdpTrainer::Flags flags = {.bucket_bytes = 20000};
  const Record record = record_run<DdpTrainer>(config, *all, &memory, flags);
  require_same(oracle, record, bounds_for(DType::fp64));
  require_same(record, record_run<DdpTrainer>(config, *all, &memory, flags), {});
  CHECK(record.device_peak == record.prediction.device);
  const Traffic measured = all->ledger().entries().at({Purpose::gradient, Collective::all_reduce});
  const Traffic predicted = record.prediction.step.at({Purpose::gradient, Collective::all_reduce});
  CHECK(measured.calls == 2 * kSteps * predicted.calls);
  CHECK(measured.payload_bytes == 2 * kSteps * predicted.payload_bytes);
}

}  // namespace
}  // namespace ladder
