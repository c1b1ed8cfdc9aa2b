#include "kernels/cpu/gemm.h"

#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/runtime/check.h"

namespace ladder::cpu {
namespace {

// One tile of the output is computed at a time from two packed panels that stay in the cache.
constexpr size_t kTileRows = 48, kTileColumns = 64, kTileDepth = 256;
// The part of a tile that is kept in registers: 6 x 8 doubles are 12 AVX registers.
constexpr size_t kRows = 6, kColumns = 8;

struct Panels {
  double a[kTileRows * kTileDepth];     // (kTileRows / kRows, depth, kRows)
  double b[kTileDepth * kTileColumns];  // (kTileColumns / kColumns, depth, kColumns)
};

// packed (ceil(count / Group), depth, Group) = element(i, p) for i < count, zero above.
template <size_t Group, class Element>
void pack(double* packed, size_t count, size_t depth, Element element) {
  for (size_t first = 0; first < count; first += Group) {
    for (size_t p = 0; p < depth; ++p) {
      for (size_t i = first; i < first + Group; ++i) *packed++ = i < count ? element(i, p) : 0;
    }
  }
}

// sums (kRows, kColumns) = a (depth, kRows)^T b (depth, kColumns), over depth in order.
inline void multiply_in_registers(size_t depth, const double* a, const double* b,
                                  double (&sums)[kRows][kColumns]) {
  double acc[kRows][kColumns] = {};
  for (size_t p = 0; p < depth; ++p, a += kRows, b += kColumns) {
#pragma GCC unroll 6
    for (size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (size_t j = 0; j < kColumns; ++j) acc[i][j] = std::fma(a[i], b[j], acc[i][j]);
    }
  }
  for (size_t i = 0; i < kRows; ++i) std::copy_n(acc[i], kColumns, sums[i]);
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
  const auto at = [](const Matrix<double>& x, size_t row, size_t column) {
    return x.transposed ? x.data[column * x.stride + row] : x.data[row * x.stride + column];
  };
#pragma omp parallel for collapse(2) schedule(static)
  for (size_t i = 0; i < m; i += kTileRows) {
    for (size_t j = 0; j < n; j += kTileColumns) {
      const size_t rows = std::min(kTileRows, m - i), columns = std::min(kTileColumns, n - j);
      Panels panels;
      for (size_t p = 0; p < k; p += kTileDepth) {
        const size_t depth = std::min(kTileDepth, k - p);
        pack<kRows>(panels.a, rows, depth, [&](size_t r, size_t q) { return at(a, i + r, p + q); });
        pack<kColumns>(panels.b, columns, depth,
                       [&](size_t c, size_t q) { return at(b, p + q, j + c); });
        multiply_panels(panels, rows, columns, depth, accumulate || p > 0, out + i * out_stride + j,
                        out_stride);
      }
    }
  }
}

}  // namespace ladder::cpu
