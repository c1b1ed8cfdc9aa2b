// What a Job leaves to libraries.
#include "common/comm/job.h"

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("tensors leave room on a GPU for cuBLAS and for each of NCCL's communicators") {
  constexpr size_t kMiB = size_t{1} << 20, kFree = 24'000 * kMiB;
  CHECK(memory_beside_libraries(kFree, 0) == kFree - 256 * kMiB);
  CHECK(memory_beside_libraries(kFree, 3) == kFree - (256 + 3 * 360) * kMiB);
  CHECK(memory_beside_libraries(100 * kMiB, 1) == 1);  // a cap, though nothing fits
}

TEST_CASE("on the CPU all that is free is for tensors") {
  Job job;
  job.connect({});
  CHECK(job.free_device_memory(0) > 0);
  CHECK(job.free_device_memory(5) == job.free_device_memory(0));
}

}  // namespace
}  // namespace ladder
