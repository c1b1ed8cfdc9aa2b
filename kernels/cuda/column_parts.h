// Sums over the rows of a 16-bit matrix, one for each column, by all multiprocessors of a GPU.
//
// Many thread blocks sum some of the rows each, and leave these partial sums in memory; then
// add_parts_kernel adds them. So every row is read once, and no multiprocessor is idle:
// column_sums.h, which fp32 and fp64 use, has 24 thread blocks for 768 columns. The order of a sum
// depends on the shape alone.
#pragma once

#include "kernels/cuda/cublas_handle.h"
#include "kernels/cuda/pack.h"

namespace ladder::cuda {

// Returns memory for so many sums: the workspace of cuBLAS, in which nothing stays from one product
// of the stream to the next.
inline float* memory_for_parts(Stream& stream, size_t sums) {
  check(sums * sizeof(float) <= Cublas::kWorkspaceBytes, "sums of columns: too many columns");
  return static_cast<float*>(Cublas::of(stream).workspace());
}

// Where sums over all rows are added: those of `kSums` quantities, for each column. What is null is
// left out.
template <unsigned kSums>
struct ColumnSums {
  float* out[kSums];
};

inline constexpr unsigned kPartLanes = 32;

// out[s][column] += sum over p of parts[p][s][column]. A warp has 32 columns; warp l of 32 takes
// the parts l, l + 32, ...; then the warps' sums are added in order. There are few parts and
// columns, so what counts is how long a warp waits for memory: with 8 warps the sums took twice as
// long.
template <unsigned kSums>
__global__ void add_parts_kernel(ColumnSums<kSums> to, const float* parts, size_t num_parts,
                                 size_t columns) {
  __shared__ float of_lane[kPartLanes][kWarpSize];
  const size_t n = kSums * columns, i = size_t{blockIdx.x} * kWarpSize + lane_index();
  float sum = 0;
  if (i < n) {
#pragma unroll 8
    for (size_t p = warp_index(); p < num_parts; p += kPartLanes) sum += parts[p * n + i];
  }
  of_lane[warp_index()][lane_index()] = sum;
  __syncthreads();
  if (warp_index() > 0 || i >= n) return;
  float total = of_lane[0][lane_index()];
  for (unsigned l = 1; l < kPartLanes; ++l) total += of_lane[l][lane_index()];
#pragma unroll
  for (unsigned s = 0; s < kSums; ++s) {
    if (i / columns == s && to.out[s] != nullptr) to.out[s][i % columns] += total;
  }
}

template <unsigned kSums>
void add_parts(Stream& stream, const ColumnSums<kSums>& to, const float* parts, size_t num_parts,
               size_t columns) {
  const size_t blocks = (kSums * columns + kWarpSize - 1) / kWarpSize;
  launch<add_parts_kernel<kSums>>(
      stream.native(), {dim3(static_cast<unsigned>(blocks)), dim3(kPartLanes * kWarpSize)}, to,
      parts, num_parts, columns);
}

}  // namespace ladder::cuda
