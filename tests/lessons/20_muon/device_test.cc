// Lesson 20 on the device of this build, by NCCL and staged, computes what lesson 01 computes on
// the CPU.

#include "tests/lessons/device.h"
#include "lessons/20_muon/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;

void check_all(DeviceType device, Communicator& all, MemorySource* memory) {
  RunConfig config = equivalence_config(DType::fp64, 3);
  config.optimizer.name = "muon";
  const Record oracle = record_oracle(config);
  for (const char* homes : {"longest-first", "everywhere"}) {
    INFO(homes);
    check_run_and_traffic<MuonTrainer>(oracle, on_device(config, device), all, memory,
                                       {.homes = homes});
  }
}

TEST_CASE("staged: lesson 01's numbers, memory and bytes as predicted") { run_staged(check_all); }

TEST_CASE("NCCL: lesson 01's numbers, memory and bytes as predicted") { run_by_nccl(check_all); }

}  // namespace
}  // namespace ladder
