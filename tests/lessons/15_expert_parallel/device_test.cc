// Lesson 15 on the device of this build computes what it computes on the CPU.

#include "tests/lessons/device.h"
#include "lessons/15_expert_parallel/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;
using Experts = ExpertParallelTrainer;

TEST_CASE("lesson 15 on devices, by NCCL and staged: what the CPU computes, with drops") {
  const auto device = device_for_tests();
  if (!device) return;
  const auto [parallel_size, stage] = GENERATE(table<size_t, size_t>({{2, 0}, {2, 1}, {1, 1}}));
  CAPTURE(parallel_size, stage);
  Experts::Flags flags = {
      .experts = {.experts = 4, .every = 1, .parallel_size = parallel_size, .capacity_factor = 1},
      .zero = {.stage = stage, .bucket_bytes = 20000}};
  RunConfig config = equivalence_config(DType::fp64, 4);
  Experts::adjust(flags, config);
  std::optional<Record> expected;
  {
    Groups groups(2);
    expected = record_run<Experts>(config, *groups.group, &groups.node_memory, flags);
  }
  testing::Ranks ranks(*device);
  {
    INFO("staged");
    const auto all = staged_world(ranks, 10'000);
    checked_run<Experts>(*expected, on_device(config, *device), *all, nullptr, flags);
  }
  if (!device_for_nccl()) return;
  INFO("NCCL");
  NcclMemory memory;
  const auto all = nccl_world(ranks, &memory);
  checked_run<Experts>(*expected, on_device(config, *device), *all, &memory, flags);
}

}  // namespace
}  // namespace ladder
