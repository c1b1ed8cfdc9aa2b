// How much of a launch a GPU holds at once, in cases that can be worked out by hand.
#include "kernels/emulator/profiler/occupancy.h"

#include "kernels/emulator/registers.h"
#include "tests/catch.h"

namespace ladder::emulator {
namespace {

Profile launch_of(double blocks, size_t threads, size_t shared_bytes) {
  return {
      .name = "some_kernel", .blocks = blocks, .threads = threads, .shared_bytes = shared_bytes};
}

double on_h100(double blocks, size_t threads, size_t shared_bytes) {
  return most_occupancy(model_named("h100"), launch_of(blocks, threads, shared_bytes));
}

TEST_CASE("occupancy: threads, shared memory or the number of thread blocks limit it") {
  CHECK(on_h100(1e6, 1024, 0) == 1);
  CHECK(on_h100(1e6, 96, 0) == 63. / 64);             // 21 blocks of 3 warps
  CHECK(on_h100(1e6, 33, 0) == 1);                    // 32 blocks of 2 warps, one with one thread
  CHECK(on_h100(1e6, 32, 0) == 0.5);                  // 32 blocks of a warp
  CHECK(on_h100(1e6, 128, 75 << 10) == 3 * 4. / 64);  // 3 (75 + 1) KiB fit into 228
  CHECK(on_h100(1e6, 128, (75 << 10) + 1) == 2 * 4. / 64);
  CHECK(on_h100(133, 256, 0) == 2 * 8. / 64);  // one multiprocessor has two blocks
}

TEST_CASE("occupancy: registers limit it") {
  const WithRegisters many("some_kernel", 128);
  CHECK(on_h100(1e6, 256, 0) == 2 * 8. / 64);  // 2 x 256 x 128 are all 65,536
}

TEST_CASE("occupancy: half of the cache counts, for all thread blocks that run at once") {
  const GpuCache cache = cache_of(model_named("h100"));
  CHECK(cache.bytes == 25 << 20);
  CHECK(cache.blocks_at_once(launch_of(1e6, 1024, 0)) == 132 * 2);
  CHECK(cache_of(model_named("a100")).blocks_at_once(launch_of(1e6, 1024, 0)) == 108 * 2);
}

}  // namespace
}  // namespace ladder::emulator
