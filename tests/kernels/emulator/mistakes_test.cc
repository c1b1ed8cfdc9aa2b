// What the emulator finds in kernels: each mistake is planted, and must be named.
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/runtime/low_precision.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

// Messages name the first thread that makes the mistake: here it is always the same one.
const WithSeed order_of_indices(0);

using cuda::launch;
using cuda::LaunchShape;

constexpr unsigned kAll = 0xffffffff;

__global__ void well(int* out) {
  const int sum = __shfl_xor_sync(kAll, 1, 1);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// The message of the launch, after which the next launch must run as if nothing had been.
template <auto kernel, class... Args>
std::string mistake(const LaunchShape& shape, Args... args) {
  std::string message;
  try {
    launch<kernel>(nullptr, shape, args...);
  } catch (const Error& e) {
    message = e.what();
  }
  const DeviceArray<int> out(2 * 1024);
  launch<well>(nullptr, {dim3(2), dim3(1024)}, out.data());
  CHECK(out.values() == std::vector<int>(2 * 1024, 1));
  return message;
}

__global__ void some_return_before_barrier(int bound) {
  if (static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) >= bound) return;
  __syncthreads();
}

TEST_CASE("a barrier that some threads do not reach because they returned") {
  const std::string message = mistake<some_return_before_barrier>({dim3(3), dim3(64)}, 100);
  CAPTURE(message);
  CHECK_THAT(message, StartsWith("kernel ladder::{anonymous}::some_return_before_barrier, "
                                 "block (1, 0, 0): threads wait for others"));
  CHECK_THAT(message, ContainsSubstring("36 threads, the first (0, 0, 0), in __syncthreads at "
                                        "tests/kernels/emulator/mistakes_test.cc:"));
  CHECK_THAT(message, ContainsSubstring("28 threads, the first (36, 0, 0), returned"));
  CHECK(mistake<some_return_before_barrier>({dim3(3), dim3(64)}, 192) == "");
}

__global__ void two_barriers() {
  if (threadIdx.y == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_CASE("threads of one block at two barriers") {
  const std::string message = mistake<two_barriers>({dim3(1), dim3(8, 2)});
  CAPTURE(message);
  CHECK_THAT(message, ContainsSubstring("two_barriers, block (0, 0, 0): thread (0, 1, 0): is in "
                                        "__syncthreads at") &&
                          ContainsSubstring("but thread (0, 0, 0) is in the one at"));
  CHECK(mistake<two_barriers>({dim3(1), dim3(8, 1)}) == "");
}

__global__ void barrier_against_shuffle() {
  if (threadIdx.x == 5) {
    __syncthreads();
  } else {
    __shfl_sync(kAll, 1, 0);
  }
}

TEST_CASE("a barrier here, a shuffle there") {
  const std::string message = mistake<barrier_against_shuffle>({dim3(1), dim3(32)});
  CAPTURE(message);
  CHECK_THAT(message, ContainsSubstring("31 threads, the first (0, 0, 0), in __shfl_sync at ") &&
                          ContainsSubstring("with mask 0xffffffff") &&
                          ContainsSubstring("1 thread, (5, 0, 0), in __syncthreads at "));
}

__global__ void shuffle_with_returned(int bound) {
  if (static_cast<int>(threadIdx.x) >= bound) return;
  __shfl_down_sync(kAll, 1.0, 1);
}

TEST_CASE("a shuffle whose mask names lanes that have returned") {
  const std::string message = mistake<shuffle_with_returned>({dim3(1), dim3(64)}, 60);
  CAPTURE(message);
  CHECK_THAT(message, ContainsSubstring("28 threads, the first (32, 0, 0), in __shfl_down_sync") &&
                          ContainsSubstring("4 threads, the first (60, 0, 0), returned"));
  CHECK(mistake<shuffle_with_returned>({dim3(1), dim3(64)}, 32) == "");
}

__global__ void mask_without_caller() { __any_sync(0xffffu, 1); }

TEST_CASE("a mask that does not name the calling lane") {
  const std::string message = mistake<mask_without_caller>({dim3(1), dim3(32)});
  CAPTURE(message);
  CHECK_THAT(message, ContainsSubstring("thread (16, 0, 0): in __any_sync at ") &&
                          ContainsSubstring("mask 0xffff does not name the calling lane, 16"));
  CHECK(mistake<mask_without_caller>({dim3(1), dim3(16)}) == "");
}

__global__ void whole_mask() { __syncwarp(); }

TEST_CASE("a mask that names more lanes than the block has") {
  CHECK_THAT(mistake<whole_mask>({dim3(1), dim3(40)}),
             ContainsSubstring("thread (32, 0, 0): in __syncwarp") &&
                 ContainsSubstring("lanes that the block does not have: this warp has 8"));
  CHECK(mistake<whole_mask>({dim3(1), dim3(64)}) == "");
}

__global__ void different_masks(unsigned odd_mask) {
  __ballot_sync(threadIdx.x % 2 == 0 ? kAll : odd_mask, 1);
}

TEST_CASE("lanes that name each other with different masks") {
  CHECK_THAT(mistake<different_masks>({dim3(1), dim3(32)}, 0xfffffffeu),
             ContainsSubstring("16 threads, the first (0, 0, 0), in __ballot_sync") &&
                 ContainsSubstring("mask 0xffffffff") && ContainsSubstring("mask 0xfffffffe"));
  CHECK(mistake<different_masks>({dim3(1), dim3(32)}, kAll) == "");
}

__global__ void shuffles_in_branches() {
  if (threadIdx.x < 16) {
    __shfl_sync(kAll, 1, 0);
  } else {
    __shfl_sync(kAll, 2, 0);
  }
}

TEST_CASE("lanes that shuffle at different places") {
  CHECK_THAT(mistake<shuffles_in_branches>({dim3(1), dim3(32)}),
             ContainsSubstring("16 threads, the first (0, 0, 0), in __shfl_sync") &&
                 ContainsSubstring("16 threads, the first (16, 0, 0), in __shfl_sync"));
}

__global__ void different_operations(bool same) {
  // On one line, and in one column: what a macro would make of it.
  const auto here = std::source_location::current();
  if (same || threadIdx.x % 2 == 0) {
    __any_sync(kAll, 1, here);
  } else {
    __all_sync(kAll, 1, here);
  }
}

TEST_CASE("lanes that wait in different operations") {
  CHECK_THAT(mistake<different_operations>({dim3(1), dim3(32)}, false),
             ContainsSubstring("in __any_sync") && ContainsSubstring("in __all_sync"));
  CHECK(mistake<different_operations>({dim3(1), dim3(32)}, true) == "");
}

__global__ void wrong_width(int width) { __shfl_xor_sync(kAll, 1, 1, width); }

TEST_CASE("a width that is no power of two up to 32") {
  const int width = GENERATE(0, -32, 3, 64);
  CHECK_THAT(mistake<wrong_width>({dim3(1), dim3(32)}, width),
             ContainsSubstring(concat("power of two up to 32, not ", width)));
}

struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
};

__global__ void throws(unsigned thread, unsigned block) {
  const Counted counted;
  if (blockIdx.x == block && threadIdx.x == thread) throw std::out_of_range("no such row");
  __syncthreads();
}

TEST_CASE("an exception ends the launch, and the stacks of all threads unwind") {
  const unsigned thread = GENERATE(0u, 17u, 63u);
  CHECK(mistake<throws>({dim3(4), dim3(64)}, thread, 2u) ==
        concat("kernel ladder::{anonymous}::throws, block (2, 0, 0): thread (", thread,
               ", 0, 0): no such row"));
  CHECK(Counted::alive == 0);
}

__global__ void throws_a_number() { throw 1; }

TEST_CASE("an exception that is none of the standard's") {
  CHECK_THAT(mistake<throws_a_number>({dim3(1), dim3(1)}),
             EndsWith("thread (0, 0, 0) threw an exception"));
}

__global__ void launches(int* out) { launch<well>(nullptr, {dim3(1), dim3(32)}, out); }

TEST_CASE("a kernel that launches a kernel") {
  const DeviceArray<int> out(32);
  CHECK_THAT(mistake<launches>({dim3(1), dim3(2)}, out.data()),
             ContainsSubstring("thread (0, 0, 0)") &&
                 ContainsSubstring("a kernel cannot launch a kernel"));
}

TEST_CASE("a barrier outside of a kernel") {
  CHECK_THROWS_WITH(__syncthreads(), ContainsSubstring("__syncthreads was called outside"));
  CHECK_THROWS_WITH(__syncwarp(), ContainsSubstring("__syncwarp was called outside"));
}

__global__ void write_at(char* out, int at) { out[at] = 1; }

TEST_CASE("a write behind the end of an allocation") {
  const size_t size = GENERATE(1, 255, 256, 1000);
  const DeviceArray<char> out(std::vector<char>(size, 0)), neighbour(300);
  const int distance = GENERATE(0, 1, 100, 255);
  CAPTURE(size, distance);
  const std::string message =
      mistake<write_at>({dim3(1), dim3(1)}, out.data(), static_cast<int>(size) + distance);
  CHECK_THAT(message, ContainsSubstring("write_at: memory " + std::to_string(distance) +
                                        " bytes behind the end of the " + std::to_string(size) +
                                        " bytes at "));
  CHECK(mistake<write_at>({dim3(1), dim3(1)}, out.data(), static_cast<int>(size) - 1) == "");
}

struct Source {  // in a struct, where launches do not look for pointers
  const float* pointer;
};

__global__ void copy_value(float* out, Source source) { *out = *source.pointer; }

TEST_CASE("what nobody wrote, was released, or lies behind an allocation is not a number") {
  constexpr size_t kLarge = 4 << 20;  // more than the tests of this file use otherwise
  const DeviceArray<float> out(1), in(std::vector<float>{1}), never_written(kLarge);
  const auto copied = [&](const float* from) {
    launch<copy_value>(nullptr, {dim3(1), dim3(1)}, out.data(), Source{from});
    return out.values()[0];
  };
  CHECK(copied(in.data()) == 1);
  CHECK(std::isnan(copied(in.data() + 1)));
  CHECK(std::isnan(copied(never_written.data() + kLarge - 1)));
  const auto bits = std::bit_cast<uint32_t>(copied(never_written.data()));
  for (const uint32_t half : {bits & 0xFFFF, bits >> 16}) {
    const auto element = static_cast<uint16_t>(half);
    CHECK(std::isnan(static_cast<float>(bfloat16::from_bits(element))));
    CHECK(std::isnan(static_cast<float>(float16::from_bits(element))));
  }
  const float* released = nullptr;
  {
    const DeviceArray<float> gone(std::vector<float>{2});
    released = gone.data();
    CHECK(copied(released) == 2);
  }
  CHECK(std::isnan(copied(released)));
}

__global__ void read_dynamic_shared(double* out) { *out = *cuda::dynamic_shared<double>(); }
__global__ void write_dynamic_shared() { *cuda::dynamic_shared<double>() = 1; }

TEST_CASE("dynamic shared memory is not a number when a block begins") {
  const DeviceArray<double> out(1);
  launch<write_dynamic_shared>(nullptr, {dim3(1), dim3(1), 8});
  launch<read_dynamic_shared>(nullptr, {dim3(1), dim3(1), 8}, out.data());
  CHECK(std::isnan(out.values()[0]));
}

}  // namespace
}  // namespace ladder
