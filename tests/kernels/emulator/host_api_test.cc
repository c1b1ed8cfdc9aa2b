// The host API: memory, copies, streams, events, and what is refused.
#include <cuda_runtime.h>

#include <cstdint>
#include <set>
#include <string>
#include <thread>

#include "tests/catch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder {
namespace {

constexpr auto kInvalid = cudaErrorInvalidValue;

TEST_CASE("there is one device") {
  int number = -1;
  CHECK(cudaGetDeviceCount(&number) == cudaSuccess);
  CHECK(number == 1);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  CHECK(cudaGetDevice(&number) == cudaSuccess);
  CHECK(number == 0);
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 1) == cudaErrorInvalidDevice);
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(std::string(properties.name) == "CUDA emulator");
  CHECK(properties.multiProcessorCount > 0);
  CHECK(properties.sharedMemPerBlockOptin > properties.sharedMemPerBlock);
  CHECK(cudaGetDeviceCount(nullptr) == kInvalid);
  CHECK(cudaGetDevice(nullptr) == kInvalid);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("the last error is kept until it is read, for each thread by itself") {
  cudaGetLastError();
  CHECK(cudaSetDevice(7) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  std::thread([] { CHECK(cudaGetLastError() == cudaSuccess); }).join();
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidValue)) == "cudaErrorInvalidValue");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of memory");
  CHECK(std::string(cudaGetErrorName(static_cast<cudaError_t>(999))) == "unrecognized error");
}

TEST_CASE("device memory is aligned, apart, counted and reused") {
  size_t free_before = 0, free_between = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free_before, &total) == cudaSuccess);
  CHECK(free_before <= total);
  std::vector<char*> pointers;
  for (size_t bytes : {1, 256, 1000, 3 << 20, 5}) {
    char* pointer = nullptr;
    REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess);
    CHECK(reinterpret_cast<std::uintptr_t>(pointer) % 256 == 0);
    if (!pointers.empty()) CHECK(pointer - pointers.back() >= 512);
    pointers.push_back(pointer);
  }
  REQUIRE(cudaMemGetInfo(&free_between, &total) == cudaSuccess);
  CHECK(free_before - free_between == 1 + 256 + 1000 + (3 << 20) + 5);
  REQUIRE(cudaFree(pointers[3]) == cudaSuccess);
  char* again = nullptr;
  REQUIRE(cudaMalloc(&again, 2 << 20) == cudaSuccess);
  CHECK(again == pointers[3]);
  char* next = nullptr;  // does not fit into what is left there
  REQUIRE(cudaMalloc(&next, 2 << 20) == cudaSuccess);
  CHECK(next > pointers[4]);
  for (char* pointer : {pointers[0], pointers[1], pointers[2], again, pointers[4], next}) {
    CHECK(cudaFree(pointer) == cudaSuccess);
  }
  size_t free_after = 0;
  REQUIRE(cudaMemGetInfo(&free_after, &total) == cudaSuccess);
  CHECK(free_after == free_before);
}

TEST_CASE("allocation refuses what it cannot do") {
  void* pointer = &pointer;
  CHECK(cudaMalloc(&pointer, 0) == cudaSuccess);
  CHECK(pointer == nullptr);
  CHECK(cudaMalloc(&pointer, SIZE_MAX) == cudaErrorMemoryAllocation);
  size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(cudaMalloc(&pointer, total + 1) == cudaErrorMemoryAllocation);
  CHECK(cudaMalloc(static_cast<void**>(nullptr), 1) == kInvalid);
  CHECK(cudaMemGetInfo(nullptr, &total) == kInvalid);

  CHECK(cudaFree(nullptr) == cudaSuccess);
  CHECK(cudaFree(&pointer) == kInvalid);
  char* device = nullptr;
  REQUIRE(cudaMalloc(&device, 100) == cudaSuccess);
  CHECK(cudaFree(device + 1) == kInvalid);
  CHECK(cudaFree(device) == cudaSuccess);
  CHECK(cudaFree(device) == kInvalid);
}

TEST_CASE("pinned host memory can be used by the host") {
  int* pointer = nullptr;
  REQUIRE(cudaMallocHost(&pointer, 4000) == cudaSuccess);
  for (int i = 0; i < 1000; ++i) pointer[i] = i;
  CHECK(pointer[999] == 999);
  CHECK(cudaFree(pointer) == kInvalid);
  CHECK(cudaFreeHost(pointer + 1) == kInvalid);
  CHECK(cudaFreeHost(pointer) == cudaSuccess);
  CHECK(cudaFreeHost(pointer) == kInvalid);
  CHECK(cudaFreeHost(nullptr) == cudaSuccess);
  CHECK(cudaMallocHost(&pointer, 0) == cudaSuccess);
  CHECK(pointer == nullptr);
  CHECK(cudaMallocHost(&pointer, SIZE_MAX / 2) == cudaErrorMemoryAllocation);
}

TEST_CASE("copies move bytes in every direction") {
  const std::vector<int> numbers = {1, 2, 3, 4, 5};
  const size_t bytes = numbers.size() * sizeof(int);
  const DeviceArray<int> a(numbers.size()), b(numbers.size());
  std::vector<int> host(numbers.size()), more(numbers.size());
  const bool by_address = GENERATE(false, true);
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    CHECK(cudaMemcpyAsync(to, from, bytes, by_address ? cudaMemcpyDefault : kind) == cudaSuccess);
  };
  copy(a.data(), numbers.data(), cudaMemcpyHostToDevice);
  copy(b.data(), a.data(), cudaMemcpyDeviceToDevice);
  copy(host.data(), b.data(), cudaMemcpyDeviceToHost);
  copy(more.data(), host.data(), cudaMemcpyHostToHost);
  CHECK(more == numbers);
  REQUIRE(cudaMemset(a.data() + 1, 0, 2 * sizeof(int)) == cudaSuccess);
  CHECK(a.values() == std::vector<int>{1, 0, 0, 4, 5});
}

TEST_CASE("copies and sets refuse wrong directions, ranges and handles") {
  const DeviceArray<char> device(std::vector<char>(100, 1)), other(100);
  std::vector<char> host(200, 2);
  char* const d = device.data();
  char* const h = host.data();
  CHECK(cudaMemcpy(h, d, 100, cudaMemcpyHostToDevice) == kInvalid);
  CHECK(cudaMemcpy(d, h, 100, cudaMemcpyDeviceToHost) == kInvalid);
  CHECK(cudaMemcpy(h, d, 100, cudaMemcpyHostToHost) == kInvalid);
  CHECK(cudaMemcpy(d, h, 100, cudaMemcpyDeviceToDevice) == kInvalid);
  CHECK(cudaMemcpy(d, h, 1, static_cast<cudaMemcpyKind>(5)) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemcpy(d, h, 101, cudaMemcpyHostToDevice) == kInvalid);
  CHECK(cudaMemcpy(d + 50, h, 51, cudaMemcpyHostToDevice) == kInvalid);
  CHECK(cudaMemcpy(d - 1, h, 1, cudaMemcpyHostToDevice) == kInvalid);
  CHECK(cudaMemcpy(h, d + 100, 1, cudaMemcpyDefault) == kInvalid);
  CHECK(cudaMemcpy(d, h, SIZE_MAX, cudaMemcpyHostToDevice) == kInvalid);
  CHECK(cudaMemcpy(nullptr, d, 1, cudaMemcpyDeviceToHost) == kInvalid);
  CHECK(cudaMemcpy(d, nullptr, 1, cudaMemcpyHostToDevice) == kInvalid);
  CHECK(cudaMemcpy(d, d + 10, 20, cudaMemcpyDeviceToDevice) == kInvalid);  // they overlap
  CHECK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(cudaMemset(d, 0, 101) == kInvalid);
  CHECK(cudaMemset(h, 0, 1) == kInvalid);
  CHECK(cudaMemset(nullptr, 0, 1) == kInvalid);
  const auto no_stream = reinterpret_cast<cudaStream_t>(h);
  CHECK(cudaMemcpyAsync(d, h, 1, cudaMemcpyHostToDevice, no_stream) ==
        cudaErrorInvalidResourceHandle);
  CHECK(cudaMemsetAsync(d, 0, 1, no_stream) == cudaErrorInvalidResourceHandle);
  CHECK(device.values() == std::vector<char>(100, 1));
  CHECK(host == std::vector<char>(200, 2));
  CHECK(cudaMemcpy(d, d + 50, 50, cudaMemcpyDeviceToDevice) == cudaSuccess);
}

TEST_CASE("streams and events keep order and time") {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr, untimed = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&begin, cudaEventDefault) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&end, cudaEventDefault) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming) == cudaSuccess);
  CHECK(cudaEventQuery(begin) == cudaSuccess);
  CHECK(cudaEventRecord(begin, stream) == cudaSuccess);
  float ms = -1;
  CHECK(cudaEventElapsedTime(&ms, begin, end) == cudaErrorInvalidResourceHandle);  // not recorded
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(cudaEventRecord(end, stream) == cudaSuccess);
  CHECK(cudaEventRecord(untimed) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&ms, begin, untimed) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventElapsedTime(nullptr, begin, end) == kInvalid);
  REQUIRE(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess);
  CHECK(ms >= 2);
  CHECK(cudaStreamWaitEvent(stream, end, 0) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(nullptr, end, 0) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, end, 4) == kInvalid);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  CHECK(cudaEventSynchronize(end) == cudaSuccess);
  for (cudaEvent_t event : {begin, end, untimed}) CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("handles that are not alive are refused") {
  const auto dead = cudaErrorInvalidResourceHandle;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamDefault) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventBlockingSync) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaEventRecord(event, stream) == dead);
  CHECK(cudaStreamWaitEvent(stream, event) == dead);
  REQUIRE(cudaEventDestroy(event) == cudaSuccess);
  float ms = 0;
  CHECK(cudaStreamDestroy(stream) == dead);
  CHECK(cudaStreamDestroy(nullptr) == dead);
  CHECK(cudaStreamSynchronize(stream) == dead);
  CHECK(cudaStreamQuery(stream) == dead);
  CHECK(cudaEventDestroy(event) == dead);
  CHECK(cudaEventRecord(event) == dead);
  CHECK(cudaEventSynchronize(event) == dead);
  CHECK(cudaEventQuery(nullptr) == dead);
  CHECK(cudaStreamWaitEvent(nullptr, event) == dead);
  CHECK(cudaEventElapsedTime(&ms, event, event) == dead);
  CHECK(cudaStreamCreateWithFlags(nullptr, 0) == kInvalid);
  CHECK(cudaStreamCreateWithFlags(&stream, 2) == kInvalid);
  CHECK(cudaEventCreateWithFlags(nullptr, 0) == kInvalid);
  CHECK(cudaEventCreateWithFlags(&event, 8) == kInvalid);
}

__global__ void nothing() {}

TEST_CASE("more shared memory than every launch may have must fit the device") {
  const auto kMax = cudaFuncAttributeMaxDynamicSharedMemorySize;
  CHECK(cudaFuncSetAttribute(nothing, kMax, 100 << 10) == cudaSuccess);
  CHECK(cudaFuncSetAttribute(nothing, kMax, 1 << 20) == kInvalid);
  CHECK(cudaFuncSetAttribute(nothing, kMax, -1) == kInvalid);
  CHECK(cudaFuncSetAttribute(nothing, static_cast<cudaFuncAttribute>(1), 1) == kInvalid);
}

}  // namespace
}  // namespace ladder
