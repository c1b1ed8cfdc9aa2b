#include "kernels/layernorm.h"

#include "kernels/cuda/layernorm_row.h"

namespace ladder::cuda {
namespace {

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

// The kernel for wider rows, or such as do not consist of packs. A warp computes one row. It reads
// the row three times, after the first time from the cache.
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

}  // namespace ladder::cuda
