// The order of thread blocks and threads: every one comes once, and kernels that need an order of
// their own are found.
#include "kernels/emulator/order.h"

#include <set>

#include "kernels/cuda/launch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

using cuda::launch;

TEST_CASE("an order has every number once") {
  const WithSeed seed(3);
  emulator::Shuffle shuffle;
  for (size_t n : {1, 2, 3, 32, 96, 1000, 1024, 70000}) {
    for (int draw = 0; draw < 5; ++draw) {
      const emulator::Order order = shuffle.next(n);
      std::set<size_t> seen;
      for (size_t i = 0; i < n; ++i) seen.insert(order[i]);
      CHECK(seen.size() == n);
      CHECK(*seen.rbegin() == n - 1);
    }
  }
}

// Thread i reads what thread i - 1 writes, and forgets the barrier. `base` is another one for each
// launch: what the last one left in shared memory is no help.
__global__ void without_barrier(int* out, int base) {
  __shared__ int tile[64];
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = base + i;
  out[i] = i == 0 ? 0 : tile[i - 1] - base + 1;
}

// The same between thread blocks, which no barrier could order.
__global__ void without_order(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = blockIdx.x == 0 ? 0 : out[blockIdx.x - 1] + 1;
}

// Lane 0 writes, and all other lanes read before they have heard of it.
__global__ void without_warp_barrier(int* out, int base) {
  __shared__ int first;
  if (threadIdx.x == 0) first = base;
  out[threadIdx.x] = first - base;
}

std::vector<int> counted(size_t n) {
  std::vector<int> values;
  for (size_t i = 0; i < n; ++i) values.push_back(static_cast<int>(i));
  return values;
}

TEST_CASE("in the order of indices a forgotten barrier may go unnoticed, with a seed it does not") {
  int base = 0;
  const auto results = [&](std::uint64_t seed) {
    const WithSeed with(seed);
    base += 1000;
    const DeviceArray<int> threads(64), blocks(64), lanes(32);
    launch<without_barrier>(nullptr, {dim3(1), dim3(64)}, threads.data(), base);
    launch<without_order>(nullptr, {dim3(64), dim3(32)}, blocks.data());
    launch<without_warp_barrier>(nullptr, {dim3(1), dim3(32)}, lanes.data(), base);
    return std::array{threads.values(), blocks.values(), lanes.values()};
  };
  const std::array in_order = results(0);
  CHECK(in_order == std::array{counted(64), counted(64), std::vector<int>(32, 0)});
  std::array<int, 3> num_found{};
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::array shuffled = results(seed);
    for (size_t i = 0; i < in_order.size(); ++i) num_found[i] += shuffled[i] != in_order[i];
    CHECK(results(seed)[1] == shuffled[1]);  // blocks come in the same order again
  }
  // Lane 0 is the first one to start with one seed in 32.
  CHECK(num_found[0] == 10);
  CHECK(num_found[1] == 10);
  CHECK(num_found[2] >= 8);
}

__global__ void sum_in_turns(int* out) {
  __shared__ int sums[2];
  int sum = static_cast<int>(threadIdx.x);
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, distance);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = sums[0] + sums[1];
}

TEST_CASE("a kernel with its barriers has the same results in any order") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const WithSeed with(seed);
    const DeviceArray<int> out(5 * 64);
    launch<sum_in_turns>(nullptr, {dim3(5), dim3(64)}, out.data());
    CHECK(out.values() == std::vector<int>(5 * 64, 63 * 64 / 2));
  }
}

__global__ void fails_in_one_thread() {
  __syncthreads();
  if (threadIdx.x == 40) throw std::runtime_error("no");
  __syncthreads();
}

TEST_CASE("a mistake is reported with its seed, and the next kernel runs") {
  const WithSeed with(5);
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(
        (launch<fails_in_one_thread>(nullptr, {dim3(3), dim3(64)})),
        ContainsSubstring("thread (40, 0, 0)") && EndsWith("(LADDER_EMULATOR_ORDER=5)"));
  }
}

}  // namespace
}  // namespace ladder
