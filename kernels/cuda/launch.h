// Launches kernels, on a GPU and on the emulator. Nothing else does.
#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "kernels/runtime/check.h"
#include "kernels/runtime/launch_observer.h"

#ifndef __CUDACC__
#include "kernels/emulator/launch.h"
#endif

namespace ladder::cuda {

// The number of threads that run a kernel: grid x block. Each thread block has shared_bytes of
// dynamic shared memory besides what the kernel declares.
struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;
};

// Returns the name of the kernel in the compiler's spelling, such as "ladder::cuda::(anonymous
// namespace)::add<float>".
template <auto kernel>
constexpr std::string_view kernel_name() {
  constexpr std::string_view kSignature = __PRETTY_FUNCTION__;
  constexpr std::string_view kBefore = "kernel = ";
  const size_t begin = kSignature.find(kBefore) + kBefore.size();
  return kSignature.substr(begin, kSignature.find_first_of(";]", begin) - begin);
}

namespace detail {

[[noreturn]] inline void launch_failed(std::string_view name, const LaunchShape& shape,
                                       cudaError_t status) {
  const auto extents = [](dim3 d) { return concat("(", d.x, ", ", d.y, ", ", d.z, ")"); };
  throw Error(concat("launch of ", name, " with grid ", extents(shape.grid), ", block ",
                     extents(shape.block), " and ", shape.shared_bytes,
                     " bytes of dynamic shared memory failed: ", cudaGetErrorString(status)));
}

template <auto kernel, class... Args>
cudaError_t start(cudaStream_t stream, const LaunchShape& shape, Args... args) {
#ifdef __CUDACC__
  kernel<<<shape.grid, shape.block, shape.shared_bytes, stream>>>(args...);
  return cudaGetLastError();
#else
  return emulator::launch(
      {kernel_name<kernel>(), reinterpret_cast<const void*>(kernel), shape.grid, shape.block,
       shape.shared_bytes, [=] { emulator::check_pointers(kernel_name<kernel>(), args...); },
       [=] { kernel(args...); }},
      stream);
#endif
}

}  // namespace detail

// Runs kernel(args...) in every thread of the shape. An empty grid runs nothing. Asynchronous on
// the stream. Throws an Error that names kernel and shape if CUDA refuses the launch.
template <auto kernel, class... Args>
void launch(cudaStream_t stream, const LaunchShape& shape, Args... args) {
  constexpr size_t kFreeSharedBytes = 48 << 10;  // a kernel must ask for more than this
  const dim3 grid = shape.grid;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaError_t status = cudaSuccess;
  if (shape.shared_bytes > kFreeSharedBytes) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shape.shared_bytes));
  }
  const ObservedLaunch observed(stream, kernel_name<kernel>());
  if (status == cudaSuccess) status = detail::start<kernel>(stream, shape, args...);
  if (status != cudaSuccess) detail::launch_failed(kernel_name<kernel>(), shape, status);
}

// Returns the thread block's dynamic shared memory as an array of T.
template <class T>
__device__ T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];
  return reinterpret_cast<T*>(dynamic_shared_memory);
#else
  return static_cast<T*>(emulator::dynamic_shared());
#endif
}

}  // namespace ladder::cuda
