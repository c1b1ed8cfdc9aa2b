// Tensor cores and asynchronous copies: where the elements of fragments are, and what goes wrong.
#include "kernels/cuda/tensor_core.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "kernels/cuda/launch.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

using cuda::Fragment;
using cuda::launch;

// The places of a lane's elements, as the PTX ISA has them in "Matrix Fragments for mma.m16n8k16
// with floating point type": a0 ... a7, b0 ... b3, c0 ... c3.
struct Element {
  size_t row, column;
};
Element a_element(size_t lane, size_t i) {
  const size_t group = lane >> 2, thread = lane % 4;
  return {i < 2 || (4 <= i && i < 6) ? group : group + 8, thread * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Element b_element(size_t lane, size_t i) {
  return {lane % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane >> 2};
}
Element c_element(size_t lane, size_t i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}

// Multiplies a (16, 16) and b (16, 8), and adds the product to sums (16, 8), twice.
template <class T>
__global__ void multiply_twice(float* sums, const float* a, const float* b) {
  const size_t lane = threadIdx.x;
  const auto element = [lane](const float* from, size_t columns, auto place, size_t i) {
    const auto [row, column] = place(lane, i);
    return from[row * columns + column];
  };
  Fragment a_words;
  uint32_t b_words[2];
  float c[4];
  for (size_t i = 0; i < 4; ++i) {
    c[i] = element(sums, 8, c_element, i);
    a_words[i] = cuda::pair_of<T>(element(a, 16, a_element, 2 * i),  //
                                  element(a, 16, a_element, 2 * i + 1));
  }
  for (size_t i = 0; i < 2; ++i) {
    b_words[i] =
        cuda::pair_of<T>(element(b, 8, b_element, 2 * i), element(b, 8, b_element, 2 * i + 1));
  }
  for (int n = 0; n < 2; ++n) cuda::mma<T>(c, a_words, b_words[0], b_words[1]);
  for (size_t i = 0; i < 4; ++i) {
    const auto [row, column] = c_element(lane, i);
    sums[row * 8 + column] = c[i];
  }
}

TEMPLATE_TEST_CASE("mma multiplies fragments as the PTX ISA lays them out", "", bfloat16, float16) {
  std::vector<float> a(16 * 16), b(16 * 8), sums(16 * 8);
  std::iota(a.begin(), a.end(), 0.0F);  // up to 255: exact in both types, and so are the sums
  std::iota(b.begin(), b.end(), -60.0F);
  std::iota(sums.begin(), sums.end(), 1000.0F);
  const DeviceArray<float> on_device(sums), left(a), right(b);
  launch<multiply_twice<TestType>>(nullptr, {dim3(1), dim3(32)}, on_device.data(), left.data(),
                                   right.data());
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      for (size_t k = 0; k < 16; ++k) {
        sums[row * 8 + column] += 2 * a[row * 16 + k] * b[k * 8 + column];
      }
    }
  }
  CHECK(on_device.values() == sums);
}

constexpr size_t kPitch = 24;  // elements from one row of a matrix to the next

template <bool kTransposed>
__global__ void load_four(uint32_t* out) {
  __shared__ __align__(16) uint16_t rows[32][kPitch];
  const unsigned lane = threadIdx.x;
  for (size_t i = 0; i < kPitch; ++i) rows[lane][i] = static_cast<uint16_t>(lane << 8 | i);
  __syncwarp();
  Fragment words;
  // The rows of the four matrices are those of the array in another order.
  const uint16_t* const row = &rows[(lane + 3) % 32][8];
  if constexpr (kTransposed) {
    cuda::load_transposed(words, row);
  } else {
    cuda::load_matrices(words, row);
  }
  std::copy_n(words, 4, out + size_t{4} * lane);
}

TEST_CASE("ldmatrix gives each lane two elements of each matrix") {
  const DeviceArray<uint32_t> plain(4 * 32), transposed(4 * 32);
  launch<load_four<false>>(nullptr, {dim3(1), dim3(32)}, plain.data());
  launch<load_four<true>>(nullptr, {dim3(1), dim3(32)}, transposed.data());
  const auto element = [](uint32_t matrix, uint32_t row, uint32_t column) {
    return ((8 * matrix + row + 3) % 32) << 8 | (8 + column);
  };
  std::vector<uint32_t> expected, expected_transposed;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t g = lane / 4, t = 2 * (lane % 4);
      expected.push_back(element(i, g, t) | element(i, g, t + 1) << 16);
      expected_transposed.push_back(element(i, t, g) | element(i, t + 1, g) << 16);
    }
  }
  CHECK(plain.values() == expected);
  CHECK(transposed.values() == expected_transposed);
}

// Three copies in two groups. Row n of `seen` is what shared memory holds after n steps: after the
// copies, after a wait for all groups but one, after a wait for all.
__global__ void copy_in_groups(float* seen, const float* from) {
  __shared__ float to[3];
  const auto look = [&](size_t step) { std::copy_n(to, 3, seen + 3 * step); };
  to[0] = to[1] = to[2] = -1;
  cuda::begin_copy(to, from, true);
  cuda::begin_copy(to + 1, from + 1, false);
  cuda::commit_copies();
  cuda::begin_copy(to + 2, from + 2, true);
  cuda::commit_copies();
  look(0);
  cuda::wait_for_copies<1>();
  look(1);
  cuda::wait_for_copies<0>();
  look(2);
}

TEST_CASE("a copy is undefined until the thread waits for its group") {
  const DeviceArray<float> from(std::vector<float>{1, 2, 3}), seen(9);
  launch<copy_in_groups>(nullptr, {dim3(1), dim3(1)}, seen.data(), from.data());
  const std::vector<float> values = seen.values();
  for (size_t i : {0, 1, 2, 5}) CHECK(std::isnan(values[i]));
  CHECK(values[3] == 1);
  CHECK(values[4] == 0);  // the source does not exist
  CHECK(std::vector<float>(values.begin() + 6, values.end()) == std::vector<float>{1, 0, 3});
}

__global__ void copy_without_commit(float* seen, const float* from) {
  __shared__ float to;
  cuda::begin_copy(&to, from, true);
  cuda::wait_for_copies<0>();
  *seen = to;
}

TEST_CASE("a copy that is in no group is not waited for, and forgotten with its thread") {
  const DeviceArray<float> from(std::vector<float>{1}), seen(1);
  for (int n = 0; n < 2; ++n) {
    launch<copy_without_commit>(nullptr, {dim3(1), dim3(1)}, seen.data(), from.data());
    CHECK(std::isnan(seen.values()[0]));
  }
}

struct Pack16 {
  float element[4];
};

__global__ void copy_packs(Pack16* out, const float* from) {
  __shared__ Pack16 to[2];
  const unsigned i = threadIdx.x;
  cuda::begin_copy(&to[i], reinterpret_cast<const Pack16*>(from) + i, true);
  cuda::commit_copies();
  cuda::wait_for_copies<0>();
  __syncthreads();
  out[i] = to[1 - i];
}

template <auto kernel, class... Args>
std::string mistake(Args... args) {
  const WithSeed order_of_indices(0);
  try {
    launch<kernel>(nullptr, {dim3(1), dim3(32)}, args...);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("a copy needs addresses that are multiples of its size") {
  const DeviceArray<float> from({0, 1, 2, 3, 4, 5, 6, 7, 8});
  const DeviceArray<Pack16> out(2);
  launch<copy_packs>(nullptr, {dim3(1), dim3(2)}, out.data(), from.data());
  const std::vector<Pack16> packs = out.values();
  CHECK((packs[0].element[0] == 4 && packs[1].element[3] == 3));
  const float* const misaligned = from.data() + 1;
  const std::string message = mistake<copy_packs>(out.data(), misaligned);
  CHECK_THAT(message,
             ContainsSubstring("thread (0, 0, 0): cp.async of 16 bytes: the address of the "
                               "source") &&
                 EndsWith("is not a multiple of 16"));
}

__global__ void load_misaligned(unsigned lane) {
  __shared__ __align__(16) uint16_t rows[32][8];
  Fragment words;
  cuda::load_matrices(words, &rows[0][0] + 8 * threadIdx.x + (threadIdx.x == lane ? 4 : 0));
}

TEST_CASE("a row that ldmatrix cannot read") {
  const std::string message = mistake<load_misaligned>(5U);
  CAPTURE(message);
  CHECK_THAT(message, ContainsSubstring("thread (5, 0, 0): in ldmatrix at ") &&
                          ContainsSubstring("the address of a row is not a multiple of 16"));
  CHECK(mistake<load_misaligned>(32U) == "");
}

__global__ void multiply_without(unsigned lane) {
  float sums[4] = {};
  const Fragment a = {};
  if (threadIdx.x != lane) cuda::mma<bfloat16>(sums, a, 0, 0);
}

TEST_CASE("a product that a lane of the warp does not take part in") {
  const std::string message = mistake<multiply_without>(7U);
  CAPTURE(message);
  CHECK_THAT(message, ContainsSubstring("31 threads, the first (0, 0, 0), in mma of bf16 at ") &&
                          ContainsSubstring("1 thread, (7, 0, 0), returned"));
  CHECK(mistake<multiply_without>(32U) == "");
}

__global__ void different_types() {
  float sums[4] = {};
  const Fragment a = {};
  if (threadIdx.x < 16) {
    cuda::mma<bfloat16>(sums, a, 0, 0);
  } else {
    cuda::mma<float16>(sums, a, 0, 0);
  }
}

TEST_CASE("lanes that multiply different types") {
  CHECK_THAT(mistake<different_types>(),
             ContainsSubstring("in mma of bf16") && ContainsSubstring("in mma of fp16"));
}

}  // namespace
}  // namespace ladder
