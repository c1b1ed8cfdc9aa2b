// Lesson 12 on the device of this build, by NCCL and staged, against the CPU.

#include "tests/lessons/device.h"
#include "lessons/12_gradient_compression/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

using namespace testing;
using Compressed = CompressionTrainer;

// In fp64 sums in another order differ so little that hardly any code falls on the other side of a
// middle: one in a million runs of this size.
void check_on_device(DeviceType device, Communicator& all, MemorySource* registered) {
  RunConfig config = on_device(equivalence_config(DType::fp64, 2), device);
  config.global_batch_size = 8;
  for (const char* codec : {"int8"}) {
    const Compressed::Flags flags = {.compression = {.compression = codec, .error_feedback = true}};
    require_cpu_gradients<Compressed>(config, all, registered, flags);
  }
}

TEST_CASE("staged: the CPU's gradients") { run_staged(check_on_device); }

TEST_CASE("NCCL: the CPU's gradients") { run_by_nccl(check_on_device); }

}  // namespace
}  // namespace ladder
