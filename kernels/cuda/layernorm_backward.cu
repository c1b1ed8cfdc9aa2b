#include "kernels/layernorm.h"

#include "kernels/cuda/column_parts.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/layernorm_row.h"

namespace ladder::cuda {
namespace {

template <unsigned N, unsigned kPacks, class T, class A = Accumulate<T>>
__global__ void rows_in_registers_kernel(T* din, const T* dout, const T* in, const T* weight,
                                         const A* means, const A* rstds, size_t rows, size_t n) {
  using Lane = LaneRow<A, N, kPacks>;
  const Lane w(weight, n);
  const A inverse = A{1} / static_cast<A>(n);
  const size_t step = size_t{gridDim.x} * kWarpsOfBlock;
  for (size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index(); row < rows; row += step) {
    const A mean = means[row], rstd = rstds[row];
    const Lane x(in + row * n, n), g(dout + row * n, n);
    A sum_g = 0, sum_gn = 0;
    Lane::for_each(n, [&](unsigned p, size_t) {
      for (unsigned k = 0; k < N; ++k) {
        const A gw = g.pack[p].element[k] * w.pack[p].element[k];
        sum_g += gw;
        sum_gn += gw * ((x.pack[p].element[k] - mean) * rstd);
      }
    });
    const A mean_g = inverse * warp_sum(sum_g), mean_gn = inverse * warp_sum(sum_gn);
    Lane::for_each(n, [&](unsigned p, size_t i) {
      auto sum = load<N>(din + row * n + i);
      for (unsigned k = 0; k < N; ++k) {
        const A gw = g.pack[p].element[k] * w.pack[p].element[k];
        const A normalized = (x.pack[p].element[k] - mean) * rstd;
        sum.element[k] += rstd * (gw - mean_g - normalized * mean_gn);
      }
      store(din + row * n + i, sum);
    });
  }
}

// The kernel for wider rows, or such as do not consist of packs. It reads the row twice, the second
// time from the cache.
// Adds the gradient to din. Each warp computes one row.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void rows_kernel(T* din, const T* dout, const T* in, const T* weight, const A* means,
                            const A* rstds, size_t rows, size_t n) {
  const size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index();
  if (row >= rows) return;
  T* const dx = din + row * n;
  const T *const x = in + row * n, *const d = dout + row * n;
  const size_t first = lane_index() * N, step = kWarpSize * N;
  const A mean = means[row], rstd = rstds[row], inverse = A{1} / static_cast<A>(n);
  A sum_g = 0, sum_gn = 0;
  for (size_t i = first; i < n; i += step) {
    const auto v = load<N>(x + i), g = load<N>(d + i);
    const auto w = load<N>(weight + i);
    for (unsigned k = 0; k < N; ++k) {
      sum_g += g.element[k] * w.element[k];
      sum_gn += g.element[k] * w.element[k] * ((v.element[k] - mean) * rstd);
    }
  }
  const A mean_g = inverse * warp_sum(sum_g), mean_gn = inverse * warp_sum(sum_gn);
  for (size_t i = first; i < n; i += step) {
    const auto v = load<N>(x + i), g = load<N>(d + i);
    const auto w = load<N>(weight + i);
    auto sum = load<N>(dx + i);
    for (unsigned k = 0; k < N; ++k) {
      const A normalized = (v.element[k] - mean) * rstd;
      sum.element[k] += rstd * (g.element[k] * w.element[k] - mean_g - normalized * mean_gn);
    }
    store(dx + i, sum);
  }
}

// Adds the sums over all rows to dweight and dbias.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void __launch_bounds__(kColumnThreads, 1)
    columns_kernel(A* dweight, A* dbias, const T* dout, const T* in, const A* means, const A* rstds,
                   size_t rows, size_t n) {
  struct Fetched {
    Pack<A, N> d, x;
    A mean, rstd;
  };
  const auto fetch = [&](size_t row, size_t column) {
    return Fetched{load<N>(dout + row * n + column), load<N>(in + row * n + column), means[row],
                   rstds[row]};
  };
  add_column_sums<N>({dweight, dbias}, rows, n, fetch, [](auto& sums, const Fetched& f) {
    for (unsigned k = 0; k < N; ++k) {
      sums[0][k] += f.d.element[k] * ((f.x.element[k] - f.mean) * f.rstd);
      sums[1][k] += f.d.element[k];
    }
  });
}

// Both at once in 16 bits, so that dout and `in` are read once: a lane adds up the columns of its
// packs over all rows of its warp. (The weight is in shared memory, because its registers are
// full.)
template <unsigned kPacks, class T>
__global__ void __launch_bounds__(kWarpsOfBlock* kWarpSize, kPacks <= 3 ? 2 : 1)
    rows_and_columns_kernel(T* din, float* parts, const T* dout, const T* in, const T* weight,
                            const float* means, const float* rstds, size_t rows, size_t n) {
  constexpr unsigned N = kPack<T>;
  using Lane = LaneRow<T, N, kPacks>;
  T* const w = dynamic_shared<T>();
  for (size_t i = threadIdx.x * N; i < n; i += blockDim.x * N) store(w + i, load<N>(weight + i));
  __syncthreads();
  const float inverse = 1 / static_cast<float>(n);
  float sums[2][kPacks][N] = {};
  auto &of_weight = sums[0], &of_bias = sums[1];
  const size_t step = size_t{gridDim.x} * kWarpsOfBlock;
  for (size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index(); row < rows; row += step) {
    const float mean = means[row], rstd = rstds[row];
    const Lane x(in + row * n, n), d(dout + row * n, n);
    float sum_g = 0, sum_gn = 0;
    Lane::for_each(n, [&](unsigned p, size_t i) {
      const auto factor = load<N>(w + i);
      for (unsigned k = 0; k < N; ++k) {
        const float g = float{d.pack[p].element[k]};
        const float normalized = (float{x.pack[p].element[k]} - mean) * rstd;
        of_weight[p][k] += g * normalized;
        of_bias[p][k] += g;
        sum_g += g * factor.element[k];
        sum_gn += g * factor.element[k] * normalized;
      }
    });
    const float mean_g = inverse * warp_sum(sum_g), mean_gn = inverse * warp_sum(sum_gn);
    Lane::for_each(n, [&](unsigned p, size_t i) {
      const auto factor = load<N>(w + i);
      auto sum = load<N>(din + row * n + i);
      for (unsigned k = 0; k < N; ++k) {
        const float g = float{d.pack[p].element[k]} * factor.element[k];
        const float normalized = (float{x.pack[p].element[k]} - mean) * rstd;
        sum.element[k] += rstd * (g - mean_g - normalized * mean_gn);
      }
      store(din + row * n + i, sum);
    });
  }
  write_part<Lane>(parts, sums, n);
}

template <class T>
void backward_in_parts(Stream& stream, T* din, const ColumnSums<2>& sums, const T* dout,
                       const T* in, const T* weight, const float* mean, const float* rstd,
                       size_t rows, size_t n) {
  LaunchShape shape = warps_of(rows, kMostParts);
  shape.shared_bytes = 2 * n * sizeof(float);
  float* const parts = memory_for_parts(stream, shape.grid.x * 2 * n);
  dispatch_packs<T>(n, [&](auto packs) {
    launch<rows_and_columns_kernel<decltype(packs)::value, T>>(
        stream.native(), shape, din, parts, dout, in, weight, mean, rstd, rows, n);
  });
  add_parts(stream, sums, parts, shape.grid.x, n);
}

}  // namespace

void layernorm_backward(Stream& stream, TensorView din, TensorView dweight, TensorView dbias,
                        ConstTensorView dout, ConstTensorView in, ConstTensorView weight,
                        ConstTensorView mean, ConstTensorView rstd) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    const T *const d = dout.as<T>(), *const x = in.as<T>(), *const w = weight.as<T>();
    const A *const m = mean.as<A>(), *const s = rstd.as<A>();
    A* const dw = dweight.empty() ? nullptr : dweight.as<A>();
    A* const db = dbias.empty() ? nullptr : dbias.as<A>();
    const bool packs = in_packs(n, dx, d, x, w);
    if constexpr (sizeof(T) == 2) {
      if (packs && fits_registers<T>(n)) {
        return backward_in_parts(stream, dx, {{dw, db}}, d, x, w, m, s, rows, n);
      }
    }
    const auto in_registers = [&](auto count) {
      if constexpr (sizeof(T) > 2) {
        launch<rows_in_registers_kernel<kPack<T>, decltype(count)::value, T>>(
            stream.native(), warps_of(rows, kBlocksOfGrid), dx, d, x, w, m, s, rows, n);
      }
    };
    const auto from_memory = [&] {
      dispatch_pack<T>(packs, [&](auto pack) {
        launch<rows_kernel<decltype(pack)::value, T>>(stream.native(), warps_of(rows), dx, d, x, w,
                                                      m, s, rows, n);
      });
    };
    dispatch_row<T>(packs, n, in_registers, from_memory);
    if (dw == nullptr && db == nullptr) return;
    dispatch_columns<T>(
        n,
        [&](auto count) {
          launch<columns_kernel<decltype(count)::value, T>>(
              stream.native(), column_slices(n, count), dw, db, d, x, m, s, rows, n);
        },
        d, x);
  });
}

}  // namespace ladder::cuda
