// Launches: every thread runs once and knows where it is; shapes; shared memory; barriers.
#include "kernels/cuda/launch.h"

#include <cstdint>
#include <latch>
#include <thread>

#include "kernels/emulator/device_model.h"
#include "kernels/emulator/registers.h"
#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

using cuda::dynamic_shared;
using cuda::launch;
using emulator::SampledLaunches, emulator::short_kernel_name, emulator::WithDeviceModel,
    emulator::WithRegisters;

// out[global thread] += its coordinates as one number.
__global__ void write_coordinates(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned at = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[at] += 1000 * block + thread;
}

TEST_CASE("every thread of every block runs once and knows its coordinates") {
  const auto [grid, block] = GENERATE(table<dim3, dim3>({
      {dim3(1), dim3(1)},
      {dim3(3), dim3(33)},
      {dim3(2, 3, 2), dim3(5, 3, 2)},
      {dim3(1, 1, 4), dim3(1, 1, 64)},
      {dim3(2), dim3(1024)},
  }));
  const size_t blocks = grid.x * grid.y * grid.z, threads = block.x * block.y * block.z;
  const DeviceArray<unsigned> out(std::vector<unsigned>(blocks * threads, 7));
  launch<write_coordinates>(nullptr, {grid, block}, out.data());
  std::vector<unsigned> expected(blocks * threads);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = static_cast<unsigned>(7 + 1000 * (i / threads) + i % threads);
  }
  CHECK(out.values() == expected);
}

// out[block * size + i] = in[block * size + size - 1 - i], by way of shared memory.
template <class T>
__global__ void reverse(T* out, const T* in) {
  __shared__ T tile[256];
  const unsigned i = threadIdx.x, size = blockDim.x;
  tile[i] = in[blockIdx.x * size + i];
  __syncthreads();
  out[blockIdx.x * size + i] = tile[size - 1 - i];
}

template <class T>
__global__ void reverse_dynamic(T* out, const T* in) {
  T* const tile = dynamic_shared<T>();
  const unsigned i = threadIdx.x, size = blockDim.x;
  tile[i] = in[blockIdx.x * size + i];
  __syncthreads();
  out[blockIdx.x * size + i] = tile[size - 1 - i];
}

TEST_CASE("a barrier orders what threads write to shared memory and read from it") {
  const size_t size = GENERATE(1, 17, 32, 65, 256), blocks = 3;
  CAPTURE(size);
  std::vector<double> in(blocks * size), expected(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = static_cast<double>(i);
    expected[i / size * size + size - 1 - i % size] = in[i];
  }
  const DeviceArray<double> source(in), out(in.size()), dynamic(in.size());
  const dim3 grid(blocks), block(static_cast<unsigned>(size));
  launch<reverse<double>>(nullptr, {grid, block}, out.data(), source.data());
  CHECK(out.values() == expected);
  launch<reverse_dynamic<double>>(nullptr, {grid, block, size * sizeof(double)}, dynamic.data(),
                                  source.data());
  CHECK(dynamic.values() == expected);
}

// The Fibonacci number rounds + 1, by threads in turn, a barrier a number.
__global__ void many_barriers(unsigned long long* out, int rounds) {
  __shared__ unsigned long long last[2];
  if (threadIdx.x == 0) last[0] = 0, last[1] = 1;
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    if (static_cast<unsigned>(round) % blockDim.x == threadIdx.x) {
      last[round % 2] += last[1 - round % 2];
    }
    __syncthreads();
  }
  if (threadIdx.x == blockDim.x - 1) out[blockIdx.x] = last[1 - rounds % 2];
}

TEST_CASE("barriers can be passed again and again") {
  const DeviceArray<unsigned long long> out(4);
  launch<many_barriers>(nullptr, {dim3(4), dim3(96)}, out.data(), 89);
  CHECK(out.values() == std::vector<unsigned long long>(4, 2880067194370816120ull));
}

__global__ void count(int* counter) { atomicAdd(counter, 1); }

TEST_CASE("an empty grid runs nothing") {
  const DeviceArray<int> counter(std::vector<int>{0});
  launch<count>(nullptr, {dim3(0), dim3(32)}, counter.data());
  launch<count>(nullptr, {dim3(4, 0), dim3(32)}, counter.data());
  CHECK(counter.values() == std::vector<int>{0});
}

TEST_CASE("impossible launches are errors that name kernel and shape") {
  const DeviceArray<int> counter(std::vector<int>{0});
  const auto refused = [&](const cuda::LaunchShape& shape, const char* why) {
    CHECK_THROWS_WITH(launch<count>(nullptr, shape, counter.data()),
                      ContainsSubstring("count") && ContainsSubstring(why));
  };
  refused({dim3(1), dim3(1025)}, "block (1025, 1, 1)");
  refused({dim3(1), dim3(0)}, "block (0, 1, 1)");
  refused({dim3(1), dim3(1, 1, 65)}, "invalid grid");
  refused({dim3(1, 65536), dim3(1)}, "grid (1, 65536, 1)");
  refused({dim3(1), dim3(1), 164 << 10}, "167936 bytes of dynamic shared memory");
  CHECK(counter.values() == std::vector<int>{0});
  launch<count>(nullptr, {dim3(1), dim3(1), 163 << 10}, counter.data());
  CHECK(counter.values() == std::vector<int>{1});
}

TEST_CASE("each GPU takes a launch that it just has room for, and refuses a larger one") {
  const auto [name, shared_bytes] =
      GENERATE(std::pair<const char*, size_t>("a100", 163 << 10), std::pair("h100", 227 << 10));
  const WithDeviceModel model(name);
  const SampledLaunches some(2);  // a grid of 2^31 thread blocks would take days
  const DeviceArray<int> counter(std::vector<int>{0});
  const auto takes = [&](const cuda::LaunchShape& shape) {
    launch<count>(nullptr, shape, counter.data());
  };
  const auto refuses = [&](const cuda::LaunchShape& shape, const char* why) {
    CHECK_THROWS_WITH(takes(shape), ContainsSubstring(why));
  };
  const char* const wrong_shape = "invalid grid, block or shared memory";
  takes({dim3(1), dim3(1024)});
  refuses({dim3(1), dim3(1025)}, wrong_shape);
  takes({dim3(1), dim3(1, 1024)});
  refuses({dim3(1), dim3(1, 1025)}, wrong_shape);
  takes({dim3(1), dim3(1, 1, 64)});
  refuses({dim3(1), dim3(1, 1, 65)}, wrong_shape);
  takes({dim3(1), dim3(32, 32)});
  refuses({dim3(1), dim3(32, 33)}, wrong_shape);
  takes({dim3(0x7fffffff), dim3(1)});
  refuses({dim3(0x80000000), dim3(1)}, wrong_shape);
  takes({dim3(1, 65535, 65535), dim3(1)});
  refuses({dim3(1, 65536), dim3(1)}, wrong_shape);
  refuses({dim3(1, 1, 65536), dim3(1)}, wrong_shape);
  takes({dim3(1), dim3(1), shared_bytes});
  refuses({dim3(1), dim3(1), shared_bytes + 1}, "invalid argument");

  const auto with_registers = [&](size_t registers, unsigned threads) {
    const WithRegisters given("count", registers);
    takes({dim3(1), dim3(threads)});
  };
  with_registers(64, 1024);  // 65,536
  CHECK_THROWS_WITH(with_registers(65, 1024), ContainsSubstring("too many registers"));
  with_registers(65, 896);  // 28 warps of 72 a thread
  CHECK_THROWS_WITH(with_registers(65, 897), ContainsSubstring("too many registers"));
  with_registers(255, 256);
  CHECK_THROWS_WITH(with_registers(255, 257), ContainsSubstring("too many registers"));
}

TEST_CASE("a kernel's short name is the same from both compilers") {
  CHECK(short_kernel_name(
            "void ladder::cuda::(anonymous namespace)::forward_kernel<ladder::bfloat16, "
            "64u>(ladder::bfloat16*, float*, unsigned long)") == "forward_kernel<bfloat16, 64>");
  CHECK(short_kernel_name("ladder::cuda::{anonymous}::forward_kernel<ladder::bfloat16, 64>") ==
        "forward_kernel<bfloat16, 64>");
  CHECK(short_kernel_name("_GLOBAL__N__2b4441d7_8_adamw_cu_7ba017e2::adamw_kernel<4, float, "
                          "ladder::bfloat16>") == "adamw_kernel<4, float, bfloat16>");
  CHECK(short_kernel_name("void ladder::cuda::(anonymous namespace)::x<ladder::cuda::Y<float, 4u> "
                          ">(float*)") == "x<Y<float, 4>>");
}

TEST_CASE("a launch on a destroyed stream is an error") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  const DeviceArray<int> counter(std::vector<int>{0});
  launch<count>(stream, {dim3(1), dim3(1)}, counter.data());
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK_THROWS_WITH(launch<count>(stream, {dim3(1), dim3(1)}, counter.data()),
                    ContainsSubstring("not a live stream"));
  CHECK(counter.values() == std::vector<int>{1});
}

__global__ void count_in_turns(int* counter) {
  for (int i = 0; i < 10; ++i) {
    __syncthreads();
    atomicAdd(counter, 1);
  }
}

TEST_CASE("threads of the process may launch at the same time") {
  constexpr int kThreads = 4, kLaunches = 50;
  const DeviceArray<int> counter(std::vector<int>{0});
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int j = 0; j < kLaunches; ++j) {
        launch<count_in_turns>(nullptr, {dim3(2), dim3(128)}, counter.data());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(counter.values() == std::vector<int>{kThreads * kLaunches * 2 * 128 * 10});
}

TEST_CASE("a kernel's name is what the compiler calls it") {
  CHECK(cuda::kernel_name<count>() == "ladder::{anonymous}::count");
  CHECK(cuda::kernel_name<reverse<double>>() == "ladder::{anonymous}::reverse<double>");
}

__global__ void take_pointer(const float*, int) {}

TEST_CASE("a pointer that the device could not follow is refused before the kernel runs") {
  const float host = 0;
  const DeviceArray<float> device(4);
  launch<take_pointer>(nullptr, {dim3(1), dim3(1)}, device.data(), 0);
  launch<take_pointer>(nullptr, {dim3(1), dim3(1)}, device.data() + 4, 0);
  launch<take_pointer>(nullptr, {dim3(1), dim3(1)}, static_cast<const float*>(nullptr), 0);
  CHECK_THROWS_WITH(
      launch<take_pointer>(nullptr, {dim3(1), dim3(1)}, &host, 0),
      ContainsSubstring("take_pointer: argument 1") && ContainsSubstring("host memory"));
  CHECK_THROWS_WITH(launch<take_pointer>(nullptr, {dim3(1), dim3(1)}, device.data() + 1000, 0),
                    ContainsSubstring("no device memory is allocated"));
}

}  // namespace
}  // namespace ladder
