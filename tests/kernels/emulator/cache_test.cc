// What a cache keeps from memory, for accesses that can be counted by hand.
#include "kernels/emulator/profiler/cache.h"
#include "tests/catch.h"

namespace ladder::emulator {
namespace {

constexpr std::uint64_t read(std::uint64_t sector) { return 2 * sector; }
constexpr std::uint64_t write(std::uint64_t sector) { return 2 * sector + 1; }

// One thread block alone.
double moved(const BlockTrace& trace, size_t sectors) {
  const MemoryTraffic traffic = traffic_with_cache({&trace, 1}, 1, sectors);
  CHECK(traffic.asked == static_cast<double>(trace.size()));
  return traffic.moved;
}

TEST_CASE("cache: what was used last stays") {
  CHECK(moved({read(1), read(1), read(1)}, 4) == 1);
  CHECK(moved({read(1), read(2), read(1), read(3), read(1)}, 2) == 3);  // 2 goes, not 1
  CHECK(moved({read(1), read(2), read(3), read(1)}, 2) == 4);
  CHECK(moved({read(1), read(2), read(3), read(1)}, 3) == 3);
}

TEST_CASE("cache: a written sector goes to memory once, when it has to go") {
  CHECK(moved({write(1), write(1), write(1)}, 4) == 1);
  CHECK(moved({write(1), read(1)}, 4) == 1);
  CHECK(moved({read(1), write(1)}, 4) == 2);
  CHECK(moved({write(1), read(2), write(1)}, 1) == 3);  // it goes in between
}

TEST_CASE("cache: thread blocks that run at once share it; others find what is left") {
  const BlockTrace a(100, read(1)), b(100, read(2));
  const std::vector<BlockTrace> blocks = {a, b, a, b};
  // Room for one sector only: those of a and b displace each other at each turn, two turns of two.
  CHECK(traffic_with_cache(blocks, 2, 1).moved == 8);
  CHECK(traffic_with_cache(blocks, 2, 2).moved == 2);
  CHECK(traffic_with_cache(blocks, 1, 1).moved == 4);  // one after the other
  CHECK(traffic_with_cache(blocks, 4, 2).moved == 2);
  // Four of eight that would run at once have half of the cache.
  CHECK(traffic_with_cache(blocks, 8, 2).moved == 8);
  CHECK(traffic_with_cache(blocks, 8, 4).moved == 2);
}

TEST_CASE("cache: thread blocks of different lengths, and without accesses") {
  const std::vector<BlockTrace> blocks = {{}, BlockTrace(1000, read(7)), {}, {write(9)}, {}};
  const MemoryTraffic traffic = traffic_with_cache(blocks, 2, 8);
  CHECK(traffic.asked == 1001);
  CHECK(traffic.moved == 2);
  CHECK(traffic_with_cache({}, 4, 8).moved == 0);
}

}  // namespace
}  // namespace ladder::emulator
