#include "kernels/columns.h"

#include "kernels/cuda/pack.h"

namespace ladder::cuda {
namespace {

// Neighbouring threads have neighbouring columns.
template <class To, class From>
__global__ void copy_columns_kernel(To* out, size_t out_stride, const From* in, size_t in_stride,
                                    size_t rows, size_t count) {
  const size_t i = thread_index();
  if (i >= rows * count) return;
  const size_t row = i / count, column = i % count;
  out[row * out_stride + column] = static_cast<To>(in[row * in_stride + column]);
}

}  // namespace

void copy_columns(Stream& stream, TensorView out, size_t out_first, ConstTensorView in,
                  size_t in_first, size_t count) {
  const size_t rows = out.shape()[0];
  dispatch_float(out.dtype(), [&](auto out_zero) {
    dispatch_float(in.dtype(), [&](auto in_zero) {
      using To = decltype(out_zero);
      using From = decltype(in_zero);
      launch<copy_columns_kernel<To, From>>(stream.native(), threads_for(rows * count),
                                            out.as<To>() + out_first, out.shape()[1],
                                            in.as<From>() + in_first, in.shape()[1], rows, count);
    });
  });
}

}  // namespace ladder::cuda
