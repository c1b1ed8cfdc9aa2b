// How planted bugs launch their kernels.
#pragma once

#include <numeric>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/kernels/emulator/support.h"

namespace ladder::planted {

using cuda::launch;

// Launches one of two kernels on the default stream, the wrong or the right one.
template <auto wrong_kernel, auto right_kernel, class... Args>
void run(bool wrong, const cuda::LaunchShape& shape, Args... args) {
  if (wrong) {
    launch<wrong_kernel>(nullptr, shape, args...);
  } else {
    launch<right_kernel>(nullptr, shape, args...);
  }
}

// Returns 0, 1, 2, ... in device memory.
template <class T>
DeviceArray<T> counted(size_t size) {
  std::vector<T> values(size);
  std::iota(values.begin(), values.end(), T{0});
  return DeviceArray<T>(values);
}

}  // namespace ladder::planted
