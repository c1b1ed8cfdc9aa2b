// The matrix products of attention's tiles.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {

// The queries and the keys of a tile. Tiles start at multiples of these, and kKeys is a multiple of
// kQueries. So with a causal mask the first key of a tile is never after its first query.
inline constexpr size_t kQueries = 64, kKeys = 256;
// In bf16 and fp16 results are summed in fp32, in a buffer with this many elements of each query's
// vector. A wider head is computed slice by slice, and each slice computes the scores again.
inline constexpr size_t kSlice = 128;

// Rows [row, row + rows) and columns [column, column + columns) of a matrix, in the accumulation
// dtype: the matrix's own memory, or a converted copy for bf16 and fp16. REQUIRES: in bf16 and
// fp16 what is copied has at most kKeys rows and kSlice columns.
template <class T>
class WidenedMatrix {
 public:
  using A = Accumulate<T>;

  WidenedMatrix(Matrix<T> from, size_t row, size_t column, size_t rows, size_t columns) {
    if (from.transposed) {
      std::swap(row, column);
      std::swap(rows, columns);
    }
    const T* const first = from.data + row * from.stride + column;
    if constexpr (is_low_precision<T>) {
      for (size_t i = 0; i < rows; ++i)
        convert(copy_ + i * kSlice, first + i * from.stride, columns);
      matrix_ = {copy_, kSlice, from.transposed};
    } else {
      matrix_ = {first, from.stride, from.transposed};
    }
  }
  WidenedMatrix(const WidenedMatrix&) = delete;
  WidenedMatrix& operator=(const WidenedMatrix&) = delete;

  operator Matrix<A>() const { return matrix_; }  // NOLINT: used as the matrix

 private:
  Matrix<A> matrix_;
  A copy_[is_low_precision<T> ? kKeys * kSlice : 1];
};

// out (m, n) = a (m, k) b (k, n), or += with accumulate. Rows of out are out_stride apart. Two
// bf16 matrices are multiplied directly. Otherwise bf16 and fp16 are converted first; if
// the left factor is, kSlice elements of the sum at a time.
template <class L, class R, class A>
void product(size_t m, size_t n, size_t k, Matrix<L> a, Matrix<R> b, bool accumulate, A* out,
             size_t out_stride) {
  if constexpr (std::is_same_v<L, bfloat16> && std::is_same_v<R, bfloat16>) {
    return gemm(m, n, k, a, b, accumulate, out, out_stride);
  }
  const size_t step = is_low_precision<L> ? kSlice : k;
  for (size_t p = 0; p < k; p += step) {
    const size_t depth = std::min(step, k - p);
    const WidenedMatrix<L> left(a, 0, p, m, depth);
    const WidenedMatrix<R> right(b, p, 0, depth, n);
    gemm(m, n, depth, Matrix<A>(left), Matrix<A>(right), accumulate || p > 0, out, out_stride);
  }
}

}  // namespace ladder::cpu
