// Warps: shuffles, votes, barriers, in whole and partial warps.
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "kernels/cuda/launch.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

using cuda::launch;

constexpr unsigned kAll = 0xffffffff;

enum class Shuffle { index, up, down, exclusive_or };

template <Shuffle shuffle, class T>
__global__ void shuffle_values(T* out, const T* in, int argument, int width) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto distance = static_cast<unsigned>(argument);
  if constexpr (shuffle == Shuffle::index) out[i] = __shfl_sync(kAll, in[i], argument, width);
  if constexpr (shuffle == Shuffle::up) out[i] = __shfl_up_sync(kAll, in[i], distance, width);
  if constexpr (shuffle == Shuffle::down) out[i] = __shfl_down_sync(kAll, in[i], distance, width);
  if constexpr (shuffle == Shuffle::exclusive_or) {
    out[i] = __shfl_xor_sync(kAll, in[i], argument, width);
  }
}

// The lane that lane `lane` reads, as the CUDA programming guide says it.
int source_of(Shuffle shuffle, int lane, int argument, int width) {
  const int group = lane / width * width, within = lane % width;
  switch (shuffle) {
    case Shuffle::index:
      return group + argument % width;
    case Shuffle::up:
      return within >= argument ? lane - argument : lane;
    case Shuffle::down:
      return within + argument < width ? lane + argument : lane;
    case Shuffle::exclusive_or:
      return (lane ^ argument) < group + width ? lane ^ argument : lane;
  }
  return lane;
}

template <Shuffle shuffle, class T>
void test_shuffle() {
  std::vector<T> in(2 * 64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<T>(1.5) * static_cast<T>(i + 1);
  const DeviceArray<T> source(in), out(in.size());
  for (int width : {1, 2, 8, 32}) {
    for (int argument : {0, 1, 3, 8, 16, 31}) {
      launch<shuffle_values<shuffle, T>>(nullptr, {dim3(2), dim3(64)}, out.data(), source.data(),
                                         argument, width);
      std::vector<T> expected(in.size());
      for (size_t i = 0; i < in.size(); ++i) {
        const int from = source_of(shuffle, static_cast<int>(i % 32), argument, width);
        expected[i] = in[i / 32 * 32 + static_cast<size_t>(from)];
      }
      CAPTURE(width, argument);
      CHECK(out.values() == expected);
    }
  }
}

TEMPLATE_TEST_CASE("shuffles move values between lanes", "", float, double, int, unsigned,
                   std::int64_t, std::uint64_t) {
  test_shuffle<Shuffle::index, TestType>();
  test_shuffle<Shuffle::up, TestType>();
  test_shuffle<Shuffle::down, TestType>();
  test_shuffle<Shuffle::exclusive_or, TestType>();
}

__global__ void block_sum(double* out, const double* in) {
  __shared__ double sums[32];
  double sum = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

TEST_CASE("warps sum up by shuffles, blocks by shared memory") {
  const unsigned threads = GENERATE(32u, 256u, 1024u);
  std::vector<double> in(3 * threads);
  std::iota(in.begin(), in.end(), 1);
  const DeviceArray<double> source(in), out(3);
  launch<block_sum>(nullptr, {dim3(3), dim3(threads)}, out.data(), source.data());
  std::vector<double> expected;  // integers, so exact in any order
  for (auto at = in.begin(); at != in.end(); at += threads) {
    expected.push_back(std::accumulate(at, at + threads, 0.0));
  }
  CHECK(out.values() == expected);
}

__global__ void vote(unsigned* out, int from) {
  const unsigned i = threadIdx.x;
  out[i] = __ballot_sync(kAll, i % 3 == 0);
  out[32 + i] = static_cast<unsigned>(__any_sync(kAll, static_cast<int>(i) == from));
  out[64 + i] = static_cast<unsigned>(__all_sync(kAll, static_cast<int>(i) >= from));
}

TEST_CASE("votes reach every lane") {
  const DeviceArray<unsigned> out(96);
  const auto expect = [&](unsigned any, unsigned all) {
    std::vector<unsigned> expected(96, 0x49249249);  // every third bit
    std::fill_n(expected.begin() + 32, 32, any);
    std::fill_n(expected.begin() + 64, 32, all);
    CHECK(out.values() == expected);
  };
  launch<vote>(nullptr, {dim3(1), dim3(32)}, out.data(), 0);
  expect(1, 1);
  launch<vote>(nullptr, {dim3(1), dim3(32)}, out.data(), 31);
  expect(1, 0);
  launch<vote>(nullptr, {dim3(1), dim3(32)}, out.data(), 32);
  expect(0, 0);
}

// Each half of the warp by itself, the upper half once more often.
__global__ void halves(int* out) {
  const unsigned i = threadIdx.x, mask = i < 16 ? 0xffffu : 0xffff0000u;
  int sum = 1;
  for (int step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(mask, sum, step);
  if (i >= 16) sum += __shfl_sync(mask, 100, 16);
  __syncwarp();
  out[i] = sum + static_cast<int>(__ballot_sync(mask, i % 8 == 0) & 1);
}

TEST_CASE("parts of a warp work by themselves") {
  const DeviceArray<int> out(32);
  launch<halves>(nullptr, {dim3(1), dim3(32)}, out.data());
  std::vector<int> expected(32, 17);
  std::fill_n(expected.begin() + 16, 16, 116);
  CHECK(out.values() == expected);
}

__global__ void partial_warp(int* out) {
  const int sum = __shfl_xor_sync(0xfffu, 1 << threadIdx.x, 1);
  out[threadIdx.x] = sum;
}

TEST_CASE("a warp may have fewer than 32 lanes") {
  const DeviceArray<int> out(12);
  launch<partial_warp>(nullptr, {dim3(1), dim3(12)}, out.data());
  std::vector<int> expected(12);
  for (int i = 0; i < 12; ++i) expected[static_cast<size_t>(i)] = 1 << (i ^ 1);
  CHECK(out.values() == expected);
}

__global__ void read_outside_of_mask(float* out) {
  out[threadIdx.x] = __shfl_down_sync(0xffu, 1.0f, 4);
}

TEST_CASE("a value from a lane outside of the mask is not a number") {
  const DeviceArray<float> out(8);
  launch<read_outside_of_mask>(nullptr, {dim3(1), dim3(8)}, out.data());
  const std::vector<float> values = out.values();
  for (size_t i = 0; i < 8; ++i) CHECK(std::isnan(values[i]) == (i >= 4));
}

// Lanes hand a baton on through shared memory, in descending order.
__global__ void baton(int* out) {
  __shared__ int last;
  for (unsigned turn = 32; turn-- > 0;) {
    if (threadIdx.x == turn) {
      out[turn] = turn == 31 ? 0 : last + 1;
      last = out[turn];
    }
    __syncwarp();
  }
}

TEST_CASE("__syncwarp orders what the lanes of a warp write and read") {
  const DeviceArray<int> out(32);
  launch<baton>(nullptr, {dim3(1), dim3(32)}, out.data());
  for (int i = 0; i < 32; ++i) CHECK(out.values()[static_cast<size_t>(i)] == 31 - i);
}

}  // namespace
}  // namespace ladder
