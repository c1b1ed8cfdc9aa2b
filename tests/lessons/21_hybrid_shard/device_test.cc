// Lesson 21 on the device of this build, by NCCL and staged, computes what lesson 01 computes on
// the CPU.

#include "tests/lessons/device.h"
#include "lessons/21_hybrid_shard/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

void check_all(DeviceType device, Communicator& all, MemorySource* memory) {
  const Record oracle = record_oracle(DType::fp64);
  const RunConfig config = on_device(equivalence_config(DType::fp64, 3), device);
  for (size_t shard_size : {1, 2, 4}) {
    INFO("shards of " << shard_size);
    check_run_and_traffic<HybridShardTrainer>(oracle, config, all, memory,
                                              {.shards = {.shard_size = shard_size}});
  }
}

TEST_CASE("staged: lesson 01's numbers, memory and bytes as predicted") { run_staged(check_all); }

TEST_CASE("NCCL: lesson 01's numbers, memory and bytes as predicted") { run_by_nccl(check_all); }

}  // namespace
}  // namespace ladder
