#include <algorithm>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {
namespace {

// One tile of the output is computed at a time from two packed panels that stay in the cache.
constexpr size_t kTileRows = 96, kTileColumns = 96, kTileDepth = 256;
// What is kept of a tile in registers: 6 rows of two vectors are 12 registers.
constexpr size_t kRows = 6;
template <class S>
constexpr size_t kColumns = 2 * Lanes<S>::kCount;

// S is the type of the sums: float or double.
template <class S>
struct Panels {
  S a[kTileRows * kTileDepth];     // (kTileRows / kRows, depth, kRows)
  S b[kTileDepth * kTileColumns];  // (kTileColumns / kColumns, depth, kColumns)
};

// packed (ceil(count / Group), depth, Group): element (i, p) is from[i * i_stride + p * p_stride]
// for i < count, and zero above. REQUIRES: one of the strides is 1.
template <size_t Group, class S, class T>
void pack(S* packed, const T* from, size_t count, size_t i_stride, size_t depth, size_t p_stride) {
  const size_t whole = count / Group * Group;
  if (whole < count) std::fill_n(packed + whole * depth, depth * Group, S{0});
  if (i_stride == 1) {
    for (size_t p = 0; p < depth; ++p) {
      const Widened<T> line(from + p * p_stride, count);
      for (size_t i = 0; i < count; i += Group) {
        std::copy_n(line + i, std::min(Group, count - i), packed + i * depth + p * Group);
      }
    }
  } else {
    for (size_t i = 0; i < count; ++i) {
      const Widened<T> line(from + i * i_stride, depth);
      S* const column = packed + i / Group * Group * depth + i % Group;
      for (size_t p = 0; p < depth; ++p) column[p * Group] = line[p];
    }
  }
}

// sums (kRows, kColumns) = a (depth, kRows)^T b (depth, kColumns), over depth in order.
template <class S>
inline void multiply_in_registers(size_t depth, const S* a, const S* b,
                                  S (&sums)[kRows][kColumns<S>]) {
  using L = Lanes<S>;
  typename L::Vector acc[kRows][2] = {};
  for (size_t p = 0; p < depth; ++p, a += kRows, b += kColumns<S>) {
    const auto b_left = L::load(b), b_right = L::load(b + L::kCount);
#pragma GCC unroll 6
    for (size_t i = 0; i < kRows; ++i) {
      const typename L::Vector a_i = a[i] - typename L::Vector{};  // a[i] in all lanes
      acc[i][0] = multiply_add(a_i, b_left, acc[i][0]);
      acc[i][1] = multiply_add(a_i, b_right, acc[i][1]);
    }
  }
#pragma GCC unroll 6
  for (size_t i = 0; i < kRows; ++i) {  // unrolled too, or all of acc would lie in memory
    L::store(sums[i], acc[i][0]);
    L::store(sums[i] + L::kCount, acc[i][1]);
  }
}

// out (m, n) = or += the product of the packed panels. REQUIRES: m, n within a tile.
template <class S>
void multiply_panels(const Panels<S>& panels, size_t m, size_t n, size_t depth, bool accumulate,
                     S* out, size_t out_stride) {
  S sums[kRows][kColumns<S>];
  for (size_t j = 0; j < n; j += kColumns<S>) {
    for (size_t i = 0; i < m; i += kRows) {
      multiply_in_registers(depth, panels.a + i * depth, panels.b + j * depth, sums);
      for (size_t r = 0; r < std::min(kRows, m - i); ++r) {
        S* row = out + (i + r) * out_stride + j;
        const auto write = [&](size_t width) {
          for (size_t c = 0; c < width; ++c) {
            row[c] = accumulate ? row[c] + sums[r][c] : sums[r][c];
          }
        };
        if (n - j >= kColumns<S>) {
          write(kColumns<S>);  // the usual case, with a known number
        } else {
          write(n - j);
        }
      }
    }
  }
}

// Computes one tile of `rows` x `columns` that begins at element (i, j), in `out`, which has the
// type of the sums.
template <class S, class T>
void multiply_tile(size_t i, size_t j, size_t rows, size_t columns, size_t k, const Matrix<T>& a,
                   const Matrix<T>& b, bool accumulate, S* out, size_t out_stride) {
  // The distances in memory of neighbours along a column and along a row of op(a) and op(b).
  const size_t a_down = a.transposed ? 1 : a.stride, a_right = a.transposed ? a.stride : 1;
  const size_t b_down = b.transposed ? 1 : b.stride, b_right = b.transposed ? b.stride : 1;
  Panels<S> panels;
  for (size_t p = 0; p < k; p += kTileDepth) {
    const size_t depth = std::min(kTileDepth, k - p);
    pack<kRows>(panels.a, a.data + i * a_down + p * a_right, rows, a_down, depth, a_right);
    pack<kColumns<S>>(panels.b, b.data + p * b_down + j * b_right, columns, b_right, depth, b_down);
    multiply_panels(panels, rows, columns, depth, accumulate || p > 0, out, out_stride);
  }
}

}  // namespace

template <class T, class Out>
void blocked_gemm(size_t m, size_t n, size_t k, Matrix<T> a, Matrix<T> b, bool accumulate, Out* out,
                  size_t out_stride) {
#pragma omp parallel for collapse(2) schedule(static)
  for (size_t i = 0; i < m; i += kTileRows) {
    for (size_t j = 0; j < n; j += kTileColumns) {
      const size_t rows = std::min(kTileRows, m - i), columns = std::min(kTileColumns, n - j);
      Out* const tile = out + i * out_stride + j;
      if constexpr (is_low_precision<Out>) {
        float sums[kTileRows * kTileColumns];
        for (size_t r = 0; accumulate && r < rows; ++r) {
          convert(sums + r * kTileColumns, tile + r * out_stride, columns);
        }
        multiply_tile(i, j, rows, columns, k, a, b, accumulate, sums, kTileColumns);
        for (size_t r = 0; r < rows; ++r) {
          convert(tile + r * out_stride, sums + r * kTileColumns, columns);
        }
      } else {
        multiply_tile(i, j, rows, columns, k, a, b, accumulate, tile, out_stride);
      }
    }
  }
}

template void blocked_gemm(size_t, size_t, size_t, Matrix<double>, Matrix<double>, bool, double*,
                           size_t);
template void blocked_gemm(size_t, size_t, size_t, Matrix<bfloat16>, Matrix<bfloat16>, bool, float*,
                           size_t);
template void blocked_gemm(size_t, size_t, size_t, Matrix<bfloat16>, Matrix<bfloat16>, bool,
                           bfloat16*, size_t);
template void blocked_gemm(size_t, size_t, size_t, Matrix<float16>, Matrix<float16>, bool, float*,
                           size_t);
template void blocked_gemm(size_t, size_t, size_t, Matrix<float16>, Matrix<float16>, bool, float16*,
                           size_t);

}  // namespace ladder::cpu
