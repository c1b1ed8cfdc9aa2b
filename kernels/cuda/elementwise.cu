#include "kernels/cuda/bodies.h"
#include "kernels/cuda/launch.h"

namespace ladder::cuda {
namespace {

template <class T>
__global__ void fill_kernel(T* out, T value, size_t n) {
  const size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) out[i] = value;
}

}  // namespace

void fill(Stream& stream, TensorView out, double value) {
  const size_t n = out.num_elements();
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    launch<fill_kernel<T>>(stream.native(),
                           {dim3(static_cast<unsigned>((n + 255) / 256)), dim3(256)}, out.as<T>(),
                           static_cast<T>(value), n);
  });
}

}  // namespace ladder::cuda
