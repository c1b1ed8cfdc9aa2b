// Launches kernels on the emulator.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <type_traits>

#include "kernels/emulator/device.h"
#include "kernels/emulator/host_api.h"

namespace ladder::emulator {

// A launch of a kernel with its arguments.
struct KernelCall {
  std::string_view name;  // its characters live as long as the process
  const void* function;   // the kernel, for cudaFuncSetAttribute
  dim3 grid, block;
  size_t shared_bytes;                    // bytes of dynamic shared memory
  std::function<void()> check_arguments;  // called once before the kernel runs: check_pointers()
  std::function<void()> run;              // runs the kernel's body for the current thread
};

// Gives the kernel to the stream. Returns an error status if a GPU would not even start it. When
// the kernel runs, an Error that names kernel, thread block and thread is thrown for each mistake
// that README.md lists. One kernel runs at a time.
cudaError_t launch(KernelCall call, cudaStream_t stream);

// Throws an Error if argument `index` of the kernel is a pointer that the device could not follow.
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

// While an OuterBlocksOnly exists, kernels run only the first and the last thread block in each
// dimension of their grid. It is for tests with tensors that are larger than any machine, of which
// they look only at the first and last elements.
class OuterBlocksOnly {
 public:
  OuterBlocksOnly();
  ~OuterBlocksOnly();
  OuterBlocksOnly(const OuterBlocksOnly&) = delete;
  OuterBlocksOnly& operator=(const OuterBlocksOnly&) = delete;
};

// While a SampledLaunches exists, kernels run at most `most` of their thread blocks, spread evenly
// from the first to the last, and then what observers ask for (Observer::sample_ends); cuBLAS and
// cudaMemset compute nothing. What then is in memory means nothing. It is for profiles of models
// that the emulator could not run: what an observer counts in some thread blocks stands for all,
// and memory that nobody writes takes no room.
class SampledLaunches {
 public:
  explicit SampledLaunches(size_t most);  // REQUIRES: most > 0
  ~SampledLaunches();
  SampledLaunches(const SampledLaunches&) = delete;
  SampledLaunches& operator=(const SampledLaunches&) = delete;
};

// Returns whether a SampledLaunches exists.
bool launches_are_sampled();

// Returns the dynamic shared memory of the running thread block.
void* dynamic_shared();

}  // namespace ladder::emulator
