// Sums over the rows of a matrix, one for each column: the gradients of biases and of layernorm's
// weights.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/pack.h"

namespace ladder::cuda {

// A thread block sums 16 neighbouring packs of columns. In bf16 a pack has two elements, so the
// slices of a row are 64 bytes, which is what an H100's memory gives at once. They are no wider,
// because narrow slices make many thread blocks: 768 columns in bf16 make 24.
inline constexpr unsigned kVectors = 16, kRowLanes = 64, kColumnThreads = kVectors * kRowLanes;

template <class T>
inline constexpr unsigned kColumnPack = std::max<size_t>(1, 4 / sizeof(T));

// Returns the shape for packs of N columns.
inline LaunchShape column_slices(size_t columns, unsigned N) {
  const size_t of_block = size_t{kVectors} * N;
  return {dim3(static_cast<unsigned>((columns + of_block - 1) / of_block)), dim3(kColumnThreads)};
}

// Adds sums over all rows to out[s][column], unless out[s] is null. fetch(row, column) loads what
// one row and N columns, from `column` on, are summed from, and add(sums, fetched) adds it to
// sums[s][0], ..., sums[s][N - 1]. Lane l of 64 takes rows l, l + 64, ...; then the lanes are added
// by halves.
//
// What eight rows need is fetched before the first of them is added: memory answers after some
// hundred nanoseconds, and a thread block sees 64 rows at a time. The compiler would fetch and add
// them one after the other, to save registers.
template <unsigned N, unsigned kSums, class A, class Fetch, class Add>
__device__ void add_column_sums(A* const (&out)[kSums], size_t rows, size_t columns, Fetch fetch,
                                Add add) {
  constexpr unsigned kAhead = 8;
  __shared__ A of_lane[kRowLanes][kVectors][kSums][N];
  const unsigned lane = threadIdx.x / kVectors, vector = threadIdx.x % kVectors;
  const size_t column = (size_t{blockIdx.x} * kVectors + vector) * N;
  A sums[kSums][N] = {};
  if (column < columns) {
    size_t row = lane;
    for (; row + (kAhead - 1) * kRowLanes < rows; row += kAhead * kRowLanes) {
      decltype(fetch(row, column)) fetched[kAhead];
#pragma unroll
      for (unsigned k = 0; k < kAhead; ++k) fetched[k] = fetch(row + k * kRowLanes, column);
#pragma unroll
      for (unsigned k = 0; k < kAhead; ++k) add(sums, fetched[k]);
    }
    for (; row < rows; row += kRowLanes) add(sums, fetch(row, column));
  }
  const auto for_each_sum = [](auto body) {
    for (unsigned s = 0; s < kSums; ++s) {
      for (unsigned k = 0; k < N; ++k) body(s, k);
    }
  };
  for_each_sum([&](unsigned s, unsigned k) { of_lane[lane][vector][s][k] = sums[s][k]; });
  for (unsigned half = kRowLanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane >= half) continue;
    for_each_sum([&](unsigned s, unsigned k) {
      of_lane[lane][vector][s][k] += of_lane[lane + half][vector][s][k];
    });
  }
  if (lane > 0 || column >= columns) return;
  for_each_sum([&](unsigned s, unsigned k) {
    if (out[s] != nullptr) out[s][column + k] += of_lane[0][vector][s][k];
  });
}

// Calls function(constant) with the number of columns in a pack, or with one if the rows at these
// addresses do not consist of packs.
template <class T, class Function, class... At>
void dispatch_columns(size_t columns, Function&& function, const At*... at) {
  constexpr unsigned N = kColumnPack<T>;
  dispatch_pack<T, N>(columns % N == 0 && packs_are_aligned<N>(at...), function);
}

}  // namespace ladder::cuda
