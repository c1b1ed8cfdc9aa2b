#include "kernels/head_norm.h"

#include <algorithm>

#include "kernels/cuda/column_parts.h"
#include "kernels/cuda/pack.h"
#include "kernels/matmul.h"

namespace ladder::cuda {
namespace {

// A warp has one head after the other. With packs of 16 bytes of the accumulation dtype a head of
// 128 elements is a pack for each lane; wider ones are read again, from the cache.
template <class T>
inline constexpr unsigned kHeadPack = kPack<T, Accumulate<T>>;

// Eight for each multiprocessor of an H100, which then has as many warps as it can.
constexpr size_t kMostBlocks = 1024;

// The warps of a thread block, and all that they need to know.
struct HeadNorm {
  HeadOffsets offset;
  size_t num_heads, n;  // in all rows; elements of a head

  // Calls body(head) for the heads of this warp.
  template <class Body>
  __device__ void for_each_head(Body body) const {
    const size_t step = size_t{gridDim.x} * num_warps();
    for (size_t h = size_t{blockIdx.x} * num_warps() + warp_index(); h < num_heads; h += step) {
      body(h);
    }
  }
  // Calls body(i) for the packs of N elements of this lane, which begin at element i of a head.
  template <unsigned N, class Body>
  __device__ void for_each_pack(Body body) const {
    for (size_t i = lane_index() * N; i < n; i += kWarpSize * N) body(i);
  }
};

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void head_norm_forward_kernel(T* x, T* before, A* rstds, const T* weight, A epsilon,
                                         HeadNorm norm) {
  norm.for_each_head([&](size_t h) {
    T *const head = x + norm.offset(h), *const saved = before + h * norm.n;
    A squares = 0;
    norm.for_each_pack<N>([&](size_t i) {
      const auto v = load<N>(head + i);
      for (unsigned k = 0; k < N; ++k) squares += v.element[k] * v.element[k];
      store(saved + i, v);
    });
    const A rstd = A{1} / std::sqrt(A{1} / static_cast<A>(norm.n) * warp_sum(squares) + epsilon);
    norm.for_each_pack<N>([&](size_t i) {
      auto v = load<N>(head + i);
      const auto factor = load<N>(weight + i);
      for (unsigned k = 0; k < N; ++k) v.element[k] = v.element[k] * rstd * factor.element[k];
      store(head + i, v);
    });
    if (lane_index() == 0) rstds[h] = rstd;
  });
}

// `parts`, unless it is null, gets a row (n) for each thread block: what its heads add to dweight.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void head_norm_backward_kernel(T* dx, A* parts, const T* before, const T* weight,
                                          const A* rstds, HeadNorm norm) {
  const size_t n = norm.n;
  A* const of_warps = dynamic_shared<A>();
  A* const own = of_warps + warp_index() * n;  // this warp's sums; a lane has always the same
  if (parts != nullptr) {
    norm.for_each_pack<N>([&](size_t i) { store(own + i, Pack<A, N>{}); });
  }
  norm.for_each_head([&](size_t h) {
    T* const d = dx + norm.offset(h);
    const T* const x = before + h * n;
    const A rstd = rstds[h];
    A sum_gn = 0;
    norm.for_each_pack<N>([&](size_t i) {
      const auto g = load<N>(d + i), v = load<N>(x + i), factor = load<N>(weight + i);
      Pack<A, N> of_weight;
      for (unsigned k = 0; k < N; ++k) {
        of_weight.element[k] = g.element[k] * (v.element[k] * rstd);
        sum_gn += of_weight.element[k] * factor.element[k];
      }
      if (parts == nullptr) return;
      auto sum = load<N>(own + i);
      for (unsigned k = 0; k < N; ++k) sum.element[k] += of_weight.element[k];
      store(own + i, sum);
    });
    const A mean_gn = A{1} / static_cast<A>(n) * warp_sum(sum_gn);
    norm.for_each_pack<N>([&](size_t i) {
      auto g = load<N>(d + i);
      const auto v = load<N>(x + i), factor = load<N>(weight + i);
      for (unsigned k = 0; k < N; ++k) {
        g.element[k] = rstd * (g.element[k] * factor.element[k] - v.element[k] * rstd * mean_gn);
      }
      store(d + i, g);
    });
  });
  if (parts == nullptr) return;
  __syncthreads();
  for (size_t i = threadIdx.x; i < n; i += blockDim.x) {
    A total = of_warps[i];
    for (unsigned warp = 1; warp < num_warps(); ++warp) total += of_warps[warp * n + i];
    parts[blockIdx.x * n + i] = total;
  }
}

// Returns the shape for so many heads. A thread block's warps have n sums of `sum_bytes` each, and
// the thread blocks leave as many in the workspace; so wide heads get fewer of both.
LaunchShape warps_of_heads(size_t heads, size_t n, size_t sum_bytes) {
  constexpr size_t kSharedBytes = size_t{32} << 10;
  const size_t bytes = std::max<size_t>(1, n * sum_bytes);
  const size_t warps = std::clamp<size_t>(kSharedBytes / bytes, 1, 8);
  const size_t most = std::clamp<size_t>(Cublas::kWorkspaceBytes / bytes, 1, kMostBlocks);
  return {dim3(static_cast<unsigned>(std::min((heads + warps - 1) / warps, most))),
          dim3(static_cast<unsigned>(warps * kWarpSize)), warps * bytes};
}

}  // namespace

void head_norm_forward(Stream& stream, TensorView x, TensorView before, TensorView rstd,
                       HeadRange heads, ConstTensorView weight, double epsilon) {
  const size_t n = weight.shape()[0];
  const HeadNorm norm = {HeadOffsets(x, heads, n), rstd.num_elements(), n};
  dispatch_float(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    constexpr unsigned N = kHeadPack<T>;
    T *const elements = x.as<T>(), *const saved = before.as<T>();
    const T* const w = weight.as<T>();
    const bool packs =
        n % N == 0 && norm.offset.columns % N == 0 && packs_are_aligned<N>(elements, saved, w);
    LaunchShape shape = warps_of_heads(norm.num_heads, n, sizeof(A));
    shape.shared_bytes = 0;
    dispatch_pack<T, N>(packs, [&](auto pack) {
      launch<head_norm_forward_kernel<decltype(pack)::value, T>>(
          stream.native(), shape, elements, saved, rstd.as<A>(), w, static_cast<A>(epsilon), norm);
    });
  });
}

void head_norm_backward(Stream& stream, TensorView dx, TensorView dweight, HeadRange heads,
                        ConstTensorView before, ConstTensorView weight, ConstTensorView rstd) {
  const size_t n = weight.shape()[0];
  const HeadNorm norm = {HeadOffsets(dx, heads, n), rstd.num_elements(), n};
  if (norm.num_heads == 0) return;
  dispatch_float(dx.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    constexpr unsigned N = kHeadPack<T>;
    T* const d = dx.as<T>();
    const T *const x = before.as<T>(), *const w = weight.as<T>();
    const bool packs = n % N == 0 && norm.offset.columns % N == 0 && packs_are_aligned<N>(d, x, w);
    const LaunchShape shape = warps_of_heads(norm.num_heads, n, sizeof(A));
    A* parts = nullptr;
    if (!dweight.empty()) {
      constexpr size_t kFloats = sizeof(A) / sizeof(float);
      parts = reinterpret_cast<A*>(memory_for_parts(stream, shape.grid.x * n * kFloats));
    }
    dispatch_pack<T, N>(packs, [&](auto pack) {
      launch<head_norm_backward_kernel<decltype(pack)::value, T>>(stream.native(), shape, d, parts,
                                                                  x, w, rstd.as<A>(), norm);
    });
    if (dweight.empty()) return;
    cuda::bias_backward(stream, dweight,
                        {parts, dweight.dtype(), dweight.device(), {shape.grid.x, n}});
  });
}

}  // namespace ladder::cuda
