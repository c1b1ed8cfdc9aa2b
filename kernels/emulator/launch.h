// Runs a kernel: every block in turn, every thread on a stack of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <type_traits>

#include "kernels/emulator/device.h"
#include "kernels/emulator/host_api.h"

namespace ladder::emulator {

struct KernelCall {
  std::string_view name;  // lives as long as the process
  const void* function;   // which kernel, for cudaFuncSetAttribute
  dim3 grid, block;
  size_t shared_bytes;                    // of dynamic shared memory
  std::function<void()> check_arguments;  // once before the kernel runs: check_pointers()
  std::function<void()> run;              // runs the kernel's body for the current thread
};

// Gives the kernel to the stream. A call that a GPU would not even start is a status other than
// cudaSuccess. When the kernel runs, Error, naming kernel, block and thread, is thrown for what is
// found: see README.md. One kernel runs at a time.
cudaError_t launch(KernelCall call, cudaStream_t stream);

// Throws Error if argument `index` of the kernel is a pointer that the device could not follow.
void check_pointer(std::string_view kernel, size_t index, const void* pointer);

template <class... Args>
void check_pointers(std::string_view kernel, const Args&... args) {
  [[maybe_unused]] size_t index = 0;
  [[maybe_unused]] const auto check_one = [&](const auto& argument) {
    using T = std::remove_cvref_t<decltype(argument)>;
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
      check_pointer(kernel, index, argument);
    }
    ++index;
  };
  (check_one(args), ...);
}

// For tests with tensors that are larger than any machine, whose last elements alone are looked at:
// while one of these lives, kernels run only the first and the last block in each dimension of
// their grid.
class OuterBlocksOnly {
 public:
  OuterBlocksOnly();
  ~OuterBlocksOnly();
  OuterBlocksOnly(const OuterBlocksOnly&) = delete;
  OuterBlocksOnly& operator=(const OuterBlocksOnly&) = delete;
};

// The dynamic shared memory of the running block.
void* dynamic_shared();

}  // namespace ladder::emulator
