// What the profiler counts, for kernels in which it can be counted by hand.
#include "kernels/emulator/profiler/profiler.h"

#include <functional>

#include "kernels/emulator/launch.h"
#include "tests/kernels/emulator/profiled/kernels.h"
#include "tests/kernels/emulator/support.h"

namespace ladder::emulator {
namespace {

constexpr double kThreads = profiled::kThreads, kWarps = kThreads / 32;

Profile profile_of(const std::function<void()>& run, GpuCache cache = {}) {
  Profiler profiler(std::move(cache));
  run();
  const std::vector<Profile> profiles = profiler.take();
  REQUIRE(profiles.size() == 1);
  return profiles[0];
}

TEST_CASE("profiler: neighbouring floats share sectors") {
  const DeviceArray<float> in{std::vector<float>(profiled::kThreads)}, out{profiled::kThreads};
  const Profile profile = profile_of([&] { profiled::copy(out.data(), in.data(), 1, 1); });
  CHECK_THAT(profile.name, ContainsSubstring("copy_kernel"));
  CHECK(profile.threads == profiled::kThreads);
  CHECK(profile.shared_bytes == 0);
  CHECK(profile.counts.instructions == 2 * kWarps);  // a load and a store
  CHECK(profile.counts.global_sectors == 2 * kThreads / 8);
}

TEST_CASE("profiler: floats that lie 32 bytes apart take a sector each") {
  const DeviceArray<float> in{std::vector<float>(8 * profiled::kThreads)}, out{profiled::kThreads};
  const Counts counts = profile_of([&] { profiled::copy(out.data(), in.data(), 8, 1); }).counts;
  CHECK(counts.global_sectors == kThreads + kThreads / 8);
}

TEST_CASE("profiler: without a cache, what all threads read is moved by each warp") {
  const DeviceArray<float> in{std::vector<float>(1)}, out{profiled::kThreads};
  const Counts counts = profile_of([&] { profiled::copy(out.data(), in.data(), 0, 1); }).counts;
  CHECK(counts.global_sectors == kWarps + kThreads / 8);
  CHECK(counts.memory_sectors == kWarps + kThreads / 8);  // nothing is cached
}

TEST_CASE("profiler: with a cache, what all threads read is moved once") {
  constexpr unsigned kBlocks = 10;
  const DeviceArray<float> in{std::vector<float>(1)}, out{kBlocks * profiled::kThreads};
  const auto run = [&] { profiled::copy(out.data(), in.data(), 0, kBlocks); };
  const auto at_once = [](size_t blocks) {
    return GpuCache{1 << 20, [=](const Profile&) { return blocks; }};
  };
  const double asked = kBlocks * (kWarps + kThreads / 8), written = kBlocks * kThreads / 8;
  for (const size_t blocks : {1, 3, 10}) {
    const Counts counts = profile_of(run, at_once(blocks)).counts;
    CHECK(counts.global_sectors == asked);
    CHECK(counts.memory_sectors == Approx(1 + written));
  }
  // Of a sampled launch the first six thread blocks show what the cache keeps.
  const SampledLaunches sampled(2);
  const Counts counts = profile_of(run, at_once(3)).counts;
  CHECK(counts.global_sectors == asked);
  CHECK(counts.memory_sectors == Approx(asked * (1 + 6 * 16.0) / (6 * 20)));
}

TEST_CASE("profiler: a launch that has been seen is not run to look at the cache once more") {
  constexpr unsigned kBlocks = 10;
  const DeviceArray<float> in{std::vector<float>(kBlocks * profiled::kThreads)},
      out{kBlocks * profiled::kThreads};
  const SampledLaunches sampled(2);
  Profiler profiler({1 << 20, [](const Profile&) { return 2; }});
  struct Blocks final : Observer {
    Blocks() { attach(*this); }
    ~Blocks() override { detach(*this); }
    void block_begins(const uint3&) override { ++count; }
    size_t count = 0;
  } seen;
  const auto run = [&](unsigned blocks) {
    seen.count = 0;
    profiled::copy(out.data(), in.data(), 1, blocks);
    return seen.count;
  };
  CHECK(run(10) == 2 + 4);
  CHECK(run(10) == 2);
  CHECK(run(9) == 2 + 4);
  const std::vector<Profile> profiles = profiler.take();
  REQUIRE(profiles.size() == 3);
  CHECK(profiles[1].observed == 2);
  CHECK(profiles[1].counts.memory_sectors == profiles[0].counts.memory_sectors);
}

TEST_CASE("profiler: a pack is one access") {
  const DeviceArray<float> in{std::vector<float>(4 * profiled::kThreads)},
      out{4 * profiled::kThreads};
  const Counts counts = profile_of([&] { profiled::copy_packs(out.data(), in.data()); }).counts;
  CHECK(counts.instructions == 2 * kWarps);
  CHECK(counts.global_sectors == 2 * kThreads / 2);
}

TEST_CASE("profiler: an access without some lanes is one of the warp") {
  const DeviceArray<float> in{std::vector<float>(profiled::kThreads)}, out{profiled::kThreads};
  const auto counts = [&](unsigned lanes) {
    return profile_of([&] { profiled::copy_in_some_lanes(out.data(), in.data(), lanes); }).counts;
  };
  CHECK(counts(31).instructions == 2 * kWarps);
  CHECK(counts(8).global_sectors == 2 * kWarps);
}

TEST_CASE("profiler: words of one bank wait for each other") {
  const auto cycles = [](unsigned apart) {
    const Counts counts = profile_of([&] { profiled::store_shared(apart); }).counts;
    CHECK(counts.shared_least_cycles == kWarps);
    CHECK(counts.global_sectors == 0);
    return counts.shared_cycles / kWarps;
  };
  CHECK(cycles(1) == 1);
  CHECK(cycles(2) == 2);
  CHECK(cycles(32) == 32);
  CHECK(cycles(33) == 1);  // a column of padding
}

TEST_CASE("profiler: 16 bytes of a quarter of a warp are one cycle") {
  const auto cycles = [](unsigned apart) {
    const Counts counts = profile_of([&] { profiled::store_shared_packs(apart); }).counts;
    CHECK(counts.shared_least_cycles == 4 * kWarps);
    return counts.shared_cycles / counts.shared_least_cycles;
  };
  CHECK(cycles(1) == 1);
  CHECK(cycles(2) == 2);
  CHECK(cycles(8) == 8);
  CHECK(cycles(9) == 1);
}

TEST_CASE("profiler: multiply-adds, and those of tensor cores") {
  const DeviceArray<float> out{std::vector<float>(profiled::kThreads)};
  const Counts counts = profile_of([&] { profiled::compute(out.data()); }).counts;
  CHECK(counts.fused_flops == 3 * 2 * kThreads);
  CHECK(counts.tensor_flops == 0);
  CHECK(profile_of(profiled::multiply).counts.tensor_flops == kWarps * 2 * 16 * 8 * 16);
}

TEST_CASE("profiler: a few thread blocks stand for all") {
  constexpr unsigned kBlocks = 100;
  const DeviceArray<float> in{std::vector<float>(kBlocks * profiled::kThreads)},
      out{kBlocks * profiled::kThreads};
  const auto run = [&] { profiled::copy(out.data(), in.data(), 1, kBlocks); };
  const Profile all = profile_of(run);
  CHECK(all.observed == kBlocks);
  const SampledLaunches sampled(8);
  const Profile some = profile_of(run);
  CHECK(some.observed == 8);
  CHECK(some.blocks == kBlocks);
  CHECK(some.counts.global_sectors == all.counts.global_sectors);
  CHECK(some.counts.instructions == all.counts.instructions);
}

TEST_CASE("sampled launches: the first and the last thread block are among those that run") {
  constexpr unsigned kBlocks = 10;
  const DeviceArray<float> in{std::vector<float>(kBlocks * profiled::kThreads, 1.0f)};
  const DeviceArray<float> out{std::vector<float>(kBlocks * profiled::kThreads, 0.0f)};
  {
    const SampledLaunches sampled(4);
    profiled::copy(out.data(), in.data(), 1, kBlocks);
  }
  std::vector<size_t> ran;
  const std::vector<float> values = out.values();
  for (size_t block = 0; block < kBlocks; ++block) {
    if (values[block * profiled::kThreads] == 1) ran.push_back(block);
  }
  CHECK(ran == std::vector<size_t>{0, 3, 6, 9});
}

}  // namespace
}  // namespace ladder::emulator
