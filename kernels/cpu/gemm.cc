#include "kernels/cpu/gemm.h"

#include <dnnl.h>
#include <immintrin.h>

#include <algorithm>
#include <string>

#include "kernels/runtime/check.h"

namespace ladder::cpu {
namespace {

// One tile of the output is computed at a time from two packed panels that stay in the cache.
constexpr size_t kTileRows = 96, kTileColumns = 96, kTileDepth = 256;
// The part of a tile that is kept in registers: 6 x 8 doubles are 12 AVX registers.
constexpr size_t kRows = 6, kColumns = 8;

struct Panels {
  double a[kTileRows * kTileDepth];     // (kTileRows / kRows, depth, kRows)
  double b[kTileDepth * kTileColumns];  // (kTileColumns / kColumns, depth, kColumns)
};

// packed (ceil(count / Group), depth, Group): element (i, p) is from[i * i_stride + p * p_stride]
// for i < count, and zero above.
template <size_t Group>
void pack(double* packed, const double* from, size_t count, size_t i_stride, size_t depth,
          size_t p_stride) {
  for (size_t first = 0; first < count; first += Group) {
    const double* const group = from + first * i_stride;
    const size_t width = std::min(Group, count - first);
    for (size_t p = 0; p < depth; ++p, packed += Group) {
      const double* const at = group + p * p_stride;
      if (width == Group && i_stride == 1) {
        std::copy_n(at, Group, packed);
      } else {
        for (size_t i = 0; i < Group; ++i) packed[i] = i < width ? at[i * i_stride] : 0;
      }
    }
  }
}

// sums (kRows, kColumns) = a (depth, kRows)^T b (depth, kColumns), over depth in order.
inline void multiply_in_registers(size_t depth, const double* a, const double* b,
                                  double (&sums)[kRows][kColumns]) {
  __m256d acc[kRows][2] = {};
  for (size_t p = 0; p < depth; ++p, a += kRows, b += kColumns) {
    const __m256d b_left = _mm256_loadu_pd(b), b_right = _mm256_loadu_pd(b + 4);
#pragma GCC unroll 6
    for (size_t i = 0; i < kRows; ++i) {
      const __m256d a_i = _mm256_broadcast_sd(a + i);
      acc[i][0] = _mm256_fmadd_pd(a_i, b_left, acc[i][0]);
      acc[i][1] = _mm256_fmadd_pd(a_i, b_right, acc[i][1]);
    }
  }
  for (size_t i = 0; i < kRows; ++i) {
    _mm256_storeu_pd(sums[i], acc[i][0]);
    _mm256_storeu_pd(sums[i] + 4, acc[i][1]);
  }
}

// out (m, n) = or += the product of the packed panels. REQUIRES: m, n within a tile.
void multiply_panels(const Panels& panels, size_t m, size_t n, size_t depth, bool accumulate,
                     double* out, size_t out_stride) {
  double sums[kRows][kColumns];
  for (size_t j = 0; j < n; j += kColumns) {
    for (size_t i = 0; i < m; i += kRows) {
      multiply_in_registers(depth, panels.a + i * depth, panels.b + j * depth, sums);
      for (size_t r = 0; r < std::min(kRows, m - i); ++r) {
        double* row = out + (i + r) * out_stride + j;
        for (size_t c = 0; c < std::min(kColumns, n - j); ++c) {
          row[c] = accumulate ? row[c] + sums[r][c] : sums[r][c];
        }
      }
    }
  }
}

}  // namespace

void gemm(size_t m, size_t n, size_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
          float* out, size_t out_stride) {
  const auto dim = [](size_t extent) { return static_cast<dnnl_dim_t>(extent); };
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', dim(m), dim(n), dim(k), 1.0f, a.data,
      dim(a.stride), b.data, dim(b.stride), accumulate ? 1.0f : 0.0f, out, dim(out_stride));
  if (status != dnnl_success) fail(concat("dnnl_sgemm returned status ", status));
}

void gemm(size_t m, size_t n, size_t k, Matrix<double> a, Matrix<double> b, bool accumulate,
          double* out, size_t out_stride) {
  // How far apart neighbours are along a row and along a column of op(a) and op(b).
  const size_t a_down = a.transposed ? 1 : a.stride, a_right = a.transposed ? a.stride : 1;
  const size_t b_down = b.transposed ? 1 : b.stride, b_right = b.transposed ? b.stride : 1;
#pragma omp parallel for collapse(2) schedule(static)
  for (size_t i = 0; i < m; i += kTileRows) {
    for (size_t j = 0; j < n; j += kTileColumns) {
      const size_t rows = std::min(kTileRows, m - i), columns = std::min(kTileColumns, n - j);
      Panels panels;
      for (size_t p = 0; p < k; p += kTileDepth) {
        const size_t depth = std::min(kTileDepth, k - p);
        pack<kRows>(panels.a, a.data + i * a_down + p * a_right, rows, a_down, depth, a_right);
        pack<kColumns>(panels.b, b.data + p * b_down + j * b_right, columns, b_right, depth,
                       b_down);
        multiply_panels(panels, rows, columns, depth, accumulate || p > 0, out + i * out_stride + j,
                        out_stride);
      }
    }
  }
}

}  // namespace ladder::cpu
