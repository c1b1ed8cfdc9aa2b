// Softmax cross-entropy of long rows, which reads each logit once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cuda/pack.h"
#include "kernels/cuda/tensor_core.h"
#include "kernels/runtime/cuda.h"

namespace ladder::cuda {

// A row of GPT-2's 50,257 logits has 200 KB in fp32: as much as the registers of a multiprocessor
// hold, and as much as its shared memory. The kernel below uses both. Each thread has up to 25
// packs of a row in registers; while the thread block computes with them, the next row is copied to
// shared memory. So memory works all the time, and nothing is read twice. L is the dtype of the
// logits.
inline constexpr unsigned kLongRowThreads = 512;
template <class L>
inline constexpr unsigned kLongRowPacks = sizeof(L) == 2 ? 13 : 25;
template <class L>
inline constexpr size_t kLongestRow = size_t{kLongRowThreads} * kLongRowPacks<L>* kPack<L>;
// Shorter rows are read a second time from the cache: all rows at work at once fit it.
inline constexpr size_t kShortestLongRow = 16'384;

// Returns the shape for so many rows of n logits, or an empty one if the kernel does not take them.
template <class L>
LaunchShape shape_for_long_rows(size_t rows, size_t n) {
  int device = 0, shared_bytes = 0, multiprocessors = 0;
  cuda_check(cudaGetDevice(&device), "cudaGetDevice");
  const auto ask = [device](int& value, cudaDeviceAttr attribute) {
    cuda_check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  };
  ask(shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  ask(multiprocessors, cudaDevAttrMultiProcessorCount);
  constexpr size_t kOthers = 1024;  // what the kernel declares, and what CUDA keeps
  const size_t needed = (n + kPack<L> - 1) / kPack<L> * kPack<L> * sizeof(L);
  const bool fits = n >= kShortestLongRow && n <= kLongestRow<L> &&
                    needed + kOthers <= static_cast<size_t>(shared_bytes);
  const size_t blocks = fits ? std::min(rows, static_cast<size_t>(multiprocessors)) : 0;
  return {dim3(static_cast<unsigned>(blocks)), dim3(kLongRowThreads), needed};
}

// Losses and gradients of rows of logits, each by a thread block, which computes several rows.
// A row's thread reads and writes the same packs of every row, so it need not wait for others'
// copies. REQUIRES: rows of logits and of gradients begin where packs do.
template <class T, class L>
__global__ void __launch_bounds__(kLongRowThreads, 1)
    long_rows_kernel(float* losses, T* dlogits, const L* logits, const int32_t* targets,
                     float scale, size_t rows, size_t n, size_t pitch, size_t out_pitch) {
  constexpr unsigned N = kPack<L>, kPacks = kLongRowPacks<L>;
  L* const next = dynamic_shared<L>();
  // Calls body(p, i) for each pack of the thread, which begins at element i.
  const auto for_each_pack = [n](auto body) {
#pragma unroll
    for (unsigned p = 0; p < kPacks; ++p) {
      const unsigned i = (p * kLongRowThreads + threadIdx.x) * N;
      if (i < n) body(p, i);
    }
  };
  const auto begin_row = [&](size_t row) {
    const L* const from = logits + row * pitch;
    if (row < rows) {
      for_each_pack([&](unsigned, unsigned i) {
        if (i + N <= n) {
          begin_copy(reinterpret_cast<Pack<L, N>*>(next + i),
                     reinterpret_cast<const Pack<L, N>*>(from + i), true);
        } else {
          for (unsigned k = i; k < n; ++k) {
            if constexpr (sizeof(L) < 4) {
              next[k] = from[k];
            } else {
              begin_copy(next + k, from + k, true);
            }
          }
        }
      });
    }
    commit_copies();
  };
  for_each_pack([&](unsigned, unsigned i) {  // what is beyond the row changes nothing
    for (unsigned k = 0; k < N; ++k) {
      if (i + k >= n) next[i + k] = L{-std::numeric_limits<float>::infinity()};
    }
  });
  begin_row(blockIdx.x);
  for (size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const size_t column = static_cast<size_t>(targets[row]);
    const float target = column < n ? float{logits[row * pitch + column]} : 0;
    wait_for_copies<0>();
    Pack<float, N> x[kPacks];
    float largest = std::numeric_limits<float>::lowest(), total = 0;
    for_each_pack([&](unsigned p, unsigned i) {
      x[p] = load<N>(next + i);
      for (unsigned k = 0; k < N; ++k) largest = std::fmax(largest, x[p].element[k]);
    });
    const float shift = block_max(largest);  // every thread has read its packs
    begin_row(row + gridDim.x);
    for_each_pack([&](unsigned p, unsigned) {
      for (unsigned k = 0; k < N; ++k) {
        x[p].element[k] = std::exp(x[p].element[k] - shift);
        total += x[p].element[k];
      }
    });
    total = block_sum(total);
    const bool counts = column < n;  // kIgnored is beyond every vocabulary
    if (threadIdx.x == 0) losses[row] = counts ? std::log(total) - (target - shift) : 0;
    const float factor = counts ? scale / total : 0;
    T* const out = dlogits + row * out_pitch;
    for_each_pack([&](unsigned p, unsigned i) {
      for (unsigned k = 0; k < N; ++k) x[p].element[k] *= factor;
      if (i + N <= n) return store(out + i, x[p]);
      for (unsigned k = 0; k < N; ++k) {
        if (i + k < n) out[i + k] = T{x[p].element[k]};
      }
    });
    if (column < n && column / N % kLongRowThreads == threadIdx.x) {  // the thread stored it
      out[column] = T{std::exp(target - shift) * factor - scale};
    }
  }
}

}  // namespace ladder::cuda
