#include "kernels/layernorm.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pack.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kWarpsOfBlock = 8;

// Rows of up to 8 packs a lane (2048 elements of bf16) are kept in registers, so memory is read
// once. A warp then computes several rows with the same weights: so many that the GPU has four
// thread blocks for each multiprocessor, if there are enough rows.
constexpr unsigned kBlocksOfGrid = 512;

// The part of a row that a lane has: packs lane, lane + 32, ... of N elements.
template <class A, unsigned N, unsigned kPacks>
struct LaneRow {
  Pack<A, N> pack[kPacks];

  // Calls body(p, i) for pack p of the lane, which begins at element i.
  template <class Body>
  static __device__ void for_each(size_t n, Body body) {
#pragma unroll
    for (unsigned p = 0; p < kPacks; ++p) {
      const size_t i = (p * kWarpSize + lane_index()) * N;
      if (i < n) body(p, i);
    }
  }
  template <class T>
  __device__ LaneRow(const T* row, size_t n) {
    for_each(n, [&](unsigned p, size_t i) { pack[p] = load<N>(row + i); });
  }
};

template <unsigned N, unsigned kPacks, class T, class A = Accumulate<T>>
__global__ void forward_in_registers_kernel(T* out, A* means, A* rstds, const T* in,
                                            const T* weight, const T* bias, size_t rows, size_t n) {
  using Lane = LaneRow<A, N, kPacks>;
  const Lane w(weight, n), b(bias, n);
  const A inverse = A{1} / static_cast<A>(n);
  const size_t step = size_t{gridDim.x} * kWarpsOfBlock;
  for (size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index(); row < rows; row += step) {
    Lane x(in + row * n, n);
    A total = 0;
    Lane::for_each(n, [&](unsigned p, size_t) {
      for (unsigned k = 0; k < N; ++k) total += x.pack[p].element[k];
    });
    const A mean = inverse * warp_sum(total);
    total = 0;
    Lane::for_each(n, [&](unsigned p, size_t) {
      for (unsigned k = 0; k < N; ++k) {
        total += (x.pack[p].element[k] - mean) * (x.pack[p].element[k] - mean);
      }
    });
    const A variance = inverse * warp_sum(total);
    const A rstd = A{1} / std::sqrt(variance + static_cast<A>(kLayernormEpsilon));
    Lane::for_each(n, [&](unsigned p, size_t i) {
      for (unsigned k = 0; k < N; ++k) {
        A& v = x.pack[p].element[k];
        v = (v - mean) * rstd * w.pack[p].element[k] + b.pack[p].element[k];
      }
      store(out + row * n + i, x.pack[p]);
    });
    if (lane_index() == 0) {
      means[row] = mean;
      rstds[row] = rstd;
    }
  }
}

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

// The kernels for wider rows, or such as do not consist of packs. A warp computes one row. It reads
// the row up to three times, after the first time from the cache.

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void forward_kernel(T* out, A* means, A* rstds, const T* in, const T* weight,
                               const T* bias, size_t rows, size_t n) {
  const size_t row = size_t{blockIdx.x} * kWarpsOfBlock + warp_index();
  if (row >= rows) return;
  const T* const x = in + row * n;
  const size_t first = lane_index() * N, step = kWarpSize * N;
  const A inverse = A{1} / static_cast<A>(n);
  A total = 0;
  for (size_t i = first; i < n; i += step) {
    const auto v = load<N>(x + i);
    for (unsigned k = 0; k < N; ++k) total += v.element[k];
  }
  const A mean = inverse * warp_sum(total);
  total = 0;
  for (size_t i = first; i < n; i += step) {
    const auto v = load<N>(x + i);
    for (unsigned k = 0; k < N; ++k) total += (v.element[k] - mean) * (v.element[k] - mean);
  }
  const A variance = inverse * warp_sum(total);
  const A rstd = A{1} / std::sqrt(variance + static_cast<A>(kLayernormEpsilon));
  for (size_t i = first; i < n; i += step) {
    auto v = load<N>(x + i);
    const auto w = load<N>(weight + i), b = load<N>(bias + i);
    for (unsigned k = 0; k < N; ++k) {
      v.element[k] = (v.element[k] - mean) * rstd * w.element[k] + b.element[k];
    }
    store(out + row * n + i, v);
  }
  if (lane_index() == 0) {
    means[row] = mean;
    rstds[row] = rstd;
  }
}

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

// Returns the shape with one warp for each row, or with the most thread blocks.
LaunchShape warps_of(size_t rows, size_t most_blocks = std::numeric_limits<unsigned>::max()) {
  const size_t blocks = std::min((rows + kWarpsOfBlock - 1) / kWarpsOfBlock, most_blocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kWarpsOfBlock * kWarpSize)};
}

// Calls in_registers(constant) with the number of packs that a lane has of a row of n elements, if
// there is a kernel for so many; else from_memory().
template <class T, class InRegisters, class FromMemory>
void dispatch_row(bool in_packs, size_t n, InRegisters in_registers, FromMemory from_memory) {
  constexpr size_t kWarpElements = kWarpSize * kPack<T>;
  if (!in_packs || n > 8 * kWarpElements) return from_memory();
  if (n > 4 * kWarpElements) return in_registers(std::integral_constant<unsigned, 8>());
  in_registers(std::integral_constant<unsigned, 4>());
}

}  // namespace

void layernorm_forward(Stream& stream, TensorView out, TensorView mean, TensorView rstd,
                       ConstTensorView in, ConstTensorView weight, ConstTensorView bias) {
  const size_t rows = in.shape()[0], n = in.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const o = out.as<T>();
    const T *const x = in.as<T>(), *const w = weight.as<T>(), *const b = bias.as<T>();
    A *const m = mean.as<A>(), *const s = rstd.as<A>();
    const bool packs = in_packs(n, o, x, w, b);
    const auto in_registers = [&](auto count) {
      launch<forward_in_registers_kernel<kPack<T>, decltype(count)::value, T>>(
          stream.native(), warps_of(rows, kBlocksOfGrid), o, m, s, x, w, b, rows, n);
    };
    const auto from_memory = [&] {
      dispatch_pack<T>(packs, [&](auto pack) {
        launch<forward_kernel<decltype(pack)::value, T>>(stream.native(), warps_of(rows), o, m, s,
                                                         x, w, b, rows, n);
      });
    };
    dispatch_row<T>(packs, n, in_registers, from_memory);
  });
}

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
    const bool packs = in_packs(n, dx, d, x, w);
    const auto in_registers = [&](auto count) {
      launch<rows_in_registers_kernel<kPack<T>, decltype(count)::value, T>>(
          stream.native(), warps_of(rows, kBlocksOfGrid), dx, d, x, w, m, s, rows, n);
    };
    const auto from_memory = [&] {
      dispatch_pack<T>(packs, [&](auto pack) {
        launch<rows_kernel<decltype(pack)::value, T>>(stream.native(), warps_of(rows), dx, d, x, w,
                                                      m, s, rows, n);
      });
    };
    dispatch_row<T>(packs, n, in_registers, from_memory);
    dispatch_columns<T>(
        n,
        [&](auto count) {
          launch<columns_kernel<decltype(count)::value, T>>(
              stream.native(), column_slices(n, count), dweight.as<A>(), dbias.as<A>(), d, x, m, s,
              rows, n);
        },
        d, x);
  });
}

}  // namespace ladder::cuda
