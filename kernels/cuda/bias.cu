#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/cuda/column_parts.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/map.h"

namespace ladder::cuda {
namespace {

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void __launch_bounds__(kColumnThreads, 1)
    bias_backward_kernel(A* dbias, const T* dout, size_t rows, size_t columns) {
  const auto fetch = [&](size_t row, size_t column) {
    return load<N>(dout + row * columns + column);
  };
  add_column_sums<N>({dbias}, rows, columns, fetch, [](auto& sums, const auto& d) {
    for (unsigned k = 0; k < N; ++k) sums[0][k] += d.element[k];
  });
}

// In 16 bits: thread blocks of 8 warps have 32 packs of columns and rows_of_part of the rows each.
// Warp l sums rows l, l + 8, ... of these, and fetches eight of them before it adds the first. Then
// the warps' sums are added in order.
constexpr unsigned kWarps = 8, kAhead = 8;

template <class T>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    bias_parts_kernel(float* parts, const T* dout, size_t rows, size_t rows_of_part,
                      size_t columns) {
  constexpr unsigned N = kPack<T>;
  __shared__ __align__(16) float of_warp[kWarps * kWarpSize * N];
  const size_t column = (size_t{blockIdx.x} * kWarpSize + lane_index()) * N;
  const size_t end = std::min(rows, (blockIdx.y + size_t{1}) * rows_of_part);
  Pack<float, N> sums = {};
  const auto add = [&sums](const Pack<T, N>& d) {
    for (unsigned k = 0; k < N; ++k) sums.element[k] += float{d.element[k]};
  };
  if (column < columns) {
    const auto fetch = [=](size_t row) { return load_as_is<N>(dout + row * columns + column); };
    size_t row = blockIdx.y * rows_of_part + warp_index();
    for (; row + (kAhead - 1) * kWarps < end; row += kAhead * kWarps) {
      Pack<T, N> fetched[kAhead];
#pragma unroll
      for (unsigned k = 0; k < kAhead; ++k) fetched[k] = fetch(row + k * kWarps);
#pragma unroll
      for (unsigned k = 0; k < kAhead; ++k) add(fetched[k]);
    }
    for (; row < end; row += kWarps) add(fetch(row));
  }
  for (unsigned k = 0; k < N; k += 4) {
    const Pack<float, 4> some = {sums.element[k], sums.element[k + 1], sums.element[k + 2],
                                 sums.element[k + 3]};
    store(of_warp + (warp_index() * kWarpSize + lane_index()) * N + k, some);
  }
  __syncthreads();
  const size_t own = size_t{blockIdx.x} * kWarpSize * N + threadIdx.x;  // a column a thread
  static_assert(kWarps * kWarpSize == kWarpSize * N);
  if (own >= columns) return;
  float total = 0;
  for (unsigned l = 0; l < kWarps; ++l) total += of_warp[l * kWarpSize * N + threadIdx.x];
  parts[blockIdx.y * columns + own] = total;
}

template <class T>
void bias_backward_in_parts(Stream& stream, float* dbias, const T* dout, size_t rows,
                            size_t columns) {
  if (rows == 0) return;
  constexpr size_t kBlocks = 512;  // four for each multiprocessor of an H100
  constexpr size_t kLeastRows = kWarps * kAhead;
  const size_t slices = (columns + kWarpSize * kPack<T> - 1) / (kWarpSize * kPack<T>);
  const size_t wanted = std::clamp<size_t>((rows + kLeastRows - 1) / kLeastRows, 1,
                                           std::max<size_t>(kBlocks / slices, 1));
  const size_t rows_of_part = (rows + wanted - 1) / wanted;
  const size_t num_parts = (rows + rows_of_part - 1) / rows_of_part;
  float* const parts = memory_for_parts(stream, num_parts * columns);
  const dim3 grid(static_cast<unsigned>(slices), static_cast<unsigned>(num_parts));
  launch<bias_parts_kernel<T>>(stream.native(), {grid, dim3(kWarps * kWarpSize)}, parts, dout, rows,
                               rows_of_part, columns);
  add_parts(stream, ColumnSums<1>{{dbias}}, parts, num_parts, columns);
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
    const T* const d = dout.as<T>();
    if constexpr (sizeof(T) == 2) {
      if (in_packs(columns, d)) {
        return bias_backward_in_parts(stream, dbias.as<float>(), d, rows, columns);
      }
    }
    dispatch_columns<T>(
        columns,
        [&](auto n) {
          launch<bias_backward_kernel<decltype(n)::value, T>>(
              stream.native(), column_slices(columns, n), dbias.as<Accumulate<T>>(), d, rows,
              columns);
        },
        d);
  });
}

}  // namespace ladder::cuda
