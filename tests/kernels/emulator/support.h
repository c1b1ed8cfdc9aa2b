// Device memory for tests of the emulator.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "kernels/emulator/order.h"
#include "tests/catch.h"

namespace ladder {

// Sets the seed and, at the end, the one from before.
class WithSeed {
 public:
  explicit WithSeed(std::uint64_t seed) { emulator::set_order_seed(seed); }
  ~WithSeed() { emulator::set_order_seed(before_); }
  WithSeed(const WithSeed&) = delete;
  WithSeed& operator=(const WithSeed&) = delete;

 private:
  std::uint64_t before_ = emulator::order_seed();
};

// An array of `size` elements in device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    REQUIRE(cudaMalloc(&data_, size * sizeof(T)) == cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    REQUIRE(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) ==
            cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> host(size_);
    REQUIRE(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace ladder
