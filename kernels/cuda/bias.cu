#include "kernels/matmul.h"

#include "kernels/cuda/map.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kSliceBytes = 32;  // the slice of a row: the least that memory fetches
constexpr unsigned kRowLanes = 64;

// Adds the column sums of dout to dbias. A thread block owns a slice of 32 bytes of every row. That
// is narrow, so that even few columns make enough thread blocks for a GPU (768 columns in fp32 make
// 96), and still nothing is fetched in vain. Each of its 64 lanes sums every 64th row, and the
// lanes are added by halves.
template <class T, class A = Accumulate<T>>
__global__ void bias_backward_kernel(A* dbias, const T* dout, size_t rows, size_t columns) {
  constexpr unsigned kColumns = kSliceBytes / sizeof(T);
  __shared__ A sums[kRowLanes][kColumns];
  const unsigned lane = threadIdx.x / kColumns, slot = threadIdx.x % kColumns;
  const size_t column = size_t{blockIdx.x} * kColumns + slot;
  A sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (size_t row = lane; row < rows; row += kRowLanes) sum += dout[row * columns + column];
  }
  sums[lane][slot] = sum;
  for (unsigned half = kRowLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane < half) sums[lane][slot] += sums[lane + half][slot];
  }
  if (lane == 0 && column < columns) dbias[column] += sums[0][slot];
}

}  // namespace

void add_bias(Stream& stream, TensorView out, ConstTensorView bias) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    map_rows(stream, Sum(), out.num_elements(), out.shape()[1], o, bias.as<T>(), o);
  });
}

void bias_backward(Stream& stream, TensorView dbias, ConstTensorView dout) {
  const size_t rows = dout.shape()[0], columns = dout.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr unsigned kColumns = kSliceBytes / sizeof(T);
    launch<bias_backward_kernel<T>>(
        stream.native(),
        threads_for((columns + kColumns - 1) / kColumns * kColumns * kRowLanes,
                    kColumns * kRowLanes),
        dbias.as<Accumulate<T>>(), dout.as<T>(), rows, columns);
  });
}

}  // namespace ladder::cuda
