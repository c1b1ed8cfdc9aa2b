#include "kernels/classifier.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cuda/map.h"
#include "kernels/vocabulary.h"

namespace ladder::cuda {
namespace {

// A thread block computes one row: a row of GPT-2's logits has 200 KB.
constexpr unsigned kMaxThreads = 512;

// Calls body(i, pack) for all elements of this thread block's row of n: pack, a constant, is how
// many are taken at once, from i on. GPT-2 has 50257 tokens, so most rows do not begin where a pack
// does. The elements before the first whole pack are taken one by one, as are those after the last.
// REQUIRES: the matrix begins where a pack does.
template <unsigned N, class Body>
__device__ void for_each_pack(size_t n, Body body) {
  const std::integral_constant<unsigned, 1> one;
  const size_t before = (N - blockIdx.x * n % N) % N;
  const size_t first = before < n ? before : n, last = first + (n - first) / N * N;
  if (threadIdx.x < first) body(size_t{threadIdx.x}, one);
  for (size_t i = first + threadIdx.x * N; i < last; i += blockDim.x * N) {
    body(i, std::integral_constant<unsigned, N>());
  }
  if (last + threadIdx.x < n) body(last + threadIdx.x, one);
}

template <unsigned N, class T>
__global__ void maximum_kernel(T* maximum, const T* logits, size_t n) {
  const T* const row = logits + blockIdx.x * n;
  T largest = std::numeric_limits<T>::lowest();
  for_each_pack<N>(n, [&](size_t i, auto pack) {
    const auto x = load<pack>(row + i);
    for (unsigned k = 0; k < pack; ++k) largest = std::fmax(largest, x.element[k]);
  });
  largest = block_max(largest);
  if (threadIdx.x == 0) maximum[blockIdx.x] = largest;
}

template <unsigned N, class T>
__global__ void exponentials_kernel(T* logits, T* sum, T* target_logit, const int32_t* targets,
                                    const T* maximum, size_t first, size_t n) {
  using A = Accumulate<T>;
  T* const row = logits + blockIdx.x * n;
  const A shift = maximum[blockIdx.x];
  const size_t column = index_in_slice(targets[blockIdx.x], first, n);
  if (column == n && threadIdx.x == 0) target_logit[blockIdx.x] = T{0};
  A total = 0;
  for_each_pack<N>(n, [&](size_t i, auto pack) {
    auto x = load<pack>(row + i);
    for (unsigned k = 0; k < pack; ++k) {
      const A shifted = x.element[k] - shift, e = std::exp(shifted);
      if (i + k == column) target_logit[blockIdx.x] = static_cast<T>(shifted);
      x.element[k] = static_cast<T>(e);
      total += e;
    }
    store(row + i, x);
  });
  total = block_sum(total);
  if (threadIdx.x == 0) sum[blockIdx.x] = static_cast<T>(total);
}

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void gradient_kernel(T* dlogits, const A* exponentials, const A* sum,
                                const int32_t* targets, size_t first, A scale, size_t n) {
  const A* const row = exponentials + blockIdx.x * n;
  T* const out = dlogits + blockIdx.x * n;
  const A factor = scale / sum[blockIdx.x];
  const size_t column = index_in_slice(targets[blockIdx.x], first, n);
  for_each_pack<N>(n, [&](size_t i, auto pack) {
    const auto x = load<pack>(row + i);
    Pack<A, pack> d;
    for (unsigned k = 0; k < pack; ++k) {
      d.element[k] = x.element[k] * factor - (i + k == column ? scale : A{0});
    }
    store(out + i, d);
  });
}

struct Loss {
  template <class T>
  __device__ T operator()(T sum, T target_logit) const {
    return std::log(sum) - target_logit;
  }
};

// Returns a thread block for each row, with at most as many threads as the row has packs.
LaunchShape blocks_of(size_t rows, size_t n, unsigned pack) {
  const size_t warps = (n + pack * kWarpSize - 1) / (pack * kWarpSize);
  const size_t threads = std::min<size_t>(kMaxThreads, warps * kWarpSize);
  return {dim3(static_cast<unsigned>(rows)), dim3(static_cast<unsigned>(threads))};
}

}  // namespace

void softmax_maximum(Stream& stream, TensorView maximum, ConstTensorView logits) {
  const size_t rows = logits.shape()[0], n = logits.shape()[1];
  dispatch_accumulation(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = logits.as<T>();
    dispatch_pack<T>(packs_are_aligned<kPack<T>>(x), [&](auto pack) {
      launch<maximum_kernel<decltype(pack)::value, T>>(stream.native(), blocks_of(rows, n, pack),
                                                       maximum.as<T>(), x, n);
    });
  });
}

void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                          TensorView target_logit, ConstTensorView targets, ConstTensorView maximum,
                          size_t first) {
  const size_t rows = logits.shape()[0], n = logits.shape()[1];
  dispatch_accumulation(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const x = logits.as<T>();
    dispatch_pack<T>(packs_are_aligned<kPack<T>>(x), [&](auto pack) {
      launch<exponentials_kernel<decltype(pack)::value, T>>(
          stream.native(), blocks_of(rows, n, pack), x, sum.as<T>(), target_logit.as<T>(),
          targets.as<int32_t>(), maximum.as<T>(), first, n);
    });
  });
}

void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale) {
  const size_t rows = exponentials.shape()[0], n = exponentials.shape()[1];
  cuda::cross_entropy_loss(stream, losses, sum, target_logit);
  dispatch_float(dlogits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const d = dlogits.as<T>();
    const A* const e = exponentials.as<A>();
    dispatch_pack<A>(packs_are_aligned<kPack<A>>(d, e), [&](auto pack) {
      launch<gradient_kernel<decltype(pack)::value, T, A>>(
          stream.native(), blocks_of(rows, n, pack), d, e, sum.as<A>(), targets.as<int32_t>(),
          first, static_cast<A>(loss_scale), n);
    });
  });
}

void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit) {
  dispatch_accumulation(losses.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, Loss(), losses.num_elements(), losses.as<T>(), sum.as<T>(), target_logit.as<T>());
  });
}

}  // namespace ladder::cuda
