#include "kernels/classifier.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cuda/classifier_row.h"
#include "kernels/cuda/map.h"
#include "kernels/vocabulary.h"

namespace ladder::cuda {
namespace {

// A thread block computes one row: a row of GPT-2's logits has 200 KB.
constexpr unsigned kMaxThreads = 1024;

// Calls body(i, pack) for all elements of a row of n: pack, a constant, is how many are taken at
// once, from i on. Those after the last whole pack are taken one by one. REQUIRES: the row begins
// where a pack does.
template <unsigned N, class Body>
__device__ void for_each_pack(size_t n, Body body) {
  const size_t last = n / N * N;
  for (size_t i = threadIdx.x * N; i < last; i += blockDim.x * N) {
    body(i, std::integral_constant<unsigned, N>());
  }
  if (last + threadIdx.x < n) body(last + threadIdx.x, std::integral_constant<unsigned, 1>());
}

// Returns whether every row begins where a pack of N elements does.
template <unsigned N, class T, class View>
bool rows_in_packs(const View& matrix) {
  return packs_are_aligned<N>(matrix.template as<T>()) && matrix.pitch() % N == 0;
}

template <unsigned N, class T>
__global__ void maximum_kernel(T* maximum, const T* logits, size_t n, size_t pitch) {
  const T* const row = logits + blockIdx.x * pitch;
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
                                    const T* maximum, size_t first, size_t n, size_t pitch) {
  using A = Accumulate<T>;
  T* const row = logits + blockIdx.x * pitch;
  const A shift = maximum[blockIdx.x];
  const int32_t target = targets[blockIdx.x];
  const size_t column = index_in_slice(target, first, n);
  if (column == n && threadIdx.x == 0) target_logit[blockIdx.x] = T{0};
  if (target == kIgnored) {
    if (threadIdx.x == 0) sum[blockIdx.x] = first == 0 ? T{1} : T{0};
    for_each_pack<N>(n, [&](size_t i, auto pack) { store(row + i, Pack<T, pack>{}); });
    return;
  }
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
                                const int32_t* targets, size_t first, A scale, size_t n,
                                size_t pitch, size_t out_pitch) {
  const A* const row = exponentials + blockIdx.x * pitch;
  T* const out = dlogits + blockIdx.x * out_pitch;
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

// All of a row. Every thread has the maximum of its elements and their sum relative to it, and then
// the threads' are combined. The gradient's pass goes backwards, because the end of the row was
// read last, and is the likeliest to be in the cache.
// L is the dtype of the logits.
template <unsigned N, class T, class L, class A = Accumulate<T>>
__global__ void __launch_bounds__(kMaxThreads)
    whole_row_kernel(A* losses, T* dlogits, const L* logits, const int32_t* targets, A scale,
                     size_t n, size_t pitch, size_t out_pitch) {
  const L* const row = logits + blockIdx.x * pitch;
  T* const out = dlogits + blockIdx.x * out_pitch;
  const size_t column = static_cast<size_t>(targets[blockIdx.x]);
  const A target = column < n ? A{row[column]} : A{0};  // now, as out may be the same memory
  A maximum = std::numeric_limits<A>::lowest(), total = 0;
  for_each_pack<N>(n, [&](size_t i, auto pack) {
    const auto x = load<pack>(row + i);
    A largest = maximum;
    for (unsigned k = 0; k < pack; ++k) largest = std::fmax(largest, x.element[k]);
    total *= std::exp(maximum - largest);
    for (unsigned k = 0; k < pack; ++k) total += std::exp(x.element[k] - largest);
    maximum = largest;
  });
  const A shift = block_max(maximum);
  total = block_sum(total * std::exp(maximum - shift));
  const bool counts = column < n;  // kIgnored is beyond every vocabulary
  if (threadIdx.x == 0) losses[blockIdx.x] = counts ? std::log(total) - (target - shift) : A{0};
  const A factor = counts ? scale / total : A{0};
  for_each_pack<N>(n, [&](size_t begin, auto pack) {
    const size_t i = pack == 1 ? begin : n / N * N - N - begin;
    const auto x = load<pack>(row + i);
    Pack<A, pack> d;
    for (unsigned k = 0; k < pack; ++k) {
      d.element[k] = std::exp(x.element[k] - shift) * factor - (i + k == column ? scale : A{0});
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

// Calls function(zero, pack) with the dtype of the gradient and the number of elements that both
// matrices allow to take at once. `from` has the accumulation dtype.
template <class Function>
void dispatch_gradient(const TensorView& dlogits, const ConstTensorView& from,
                       Function&& function) {
  dispatch_float(dlogits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    const bool in_packs = rows_in_packs<kPack<A>, T>(dlogits) && rows_in_packs<kPack<A>, A>(from);
    dispatch_pack<A>(in_packs, [&](auto pack) { function(zero, pack); });
  });
}

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
    dispatch_pack<T>(rows_in_packs<kPack<T>, T>(logits), [&](auto pack) {
      launch<maximum_kernel<decltype(pack)::value, T>>(stream.native(), blocks_of(rows, n, pack),
                                                       maximum.as<T>(), logits.as<T>(), n,
                                                       logits.pitch());
    });
  });
}

void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                          TensorView target_logit, ConstTensorView targets, ConstTensorView maximum,
                          size_t first) {
  const size_t rows = logits.shape()[0], n = logits.shape()[1];
  dispatch_accumulation(logits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    dispatch_pack<T>(rows_in_packs<kPack<T>, T>(logits), [&](auto pack) {
      launch<exponentials_kernel<decltype(pack)::value, T>>(
          stream.native(), blocks_of(rows, n, pack), logits.as<T>(), sum.as<T>(),
          target_logit.as<T>(), targets.as<int32_t>(), maximum.as<T>(), first, n, logits.pitch());
    });
  });
}

void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale) {
  const size_t rows = exponentials.shape()[0], n = exponentials.shape()[1];
  cuda::cross_entropy_loss(stream, losses, sum, target_logit);
  dispatch_gradient(dlogits, exponentials, [&](auto zero, auto pack) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    launch<gradient_kernel<decltype(pack)::value, T, A>>(
        stream.native(), blocks_of(rows, n, pack), dlogits.as<T>(), exponentials.as<A>(),
        sum.as<A>(), targets.as<int32_t>(), first, static_cast<A>(loss_scale), n,
        exponentials.pitch(), dlogits.pitch());
  });
}

void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit) {
  dispatch_accumulation(losses.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, Loss(), losses.num_elements(), losses.as<T>(), sum.as<T>(), target_logit.as<T>());
  });
}

namespace {

// Losses and gradients of rows of logits in L, whose gradients are in T.
template <unsigned N, class T, class L>
void whole_rows(Stream& stream, TensorView losses, TensorView dlogits, TensorView logits,
                ConstTensorView targets, double loss_scale) {
  using A = Accumulate<T>;
  const size_t rows = logits.shape()[0], n = logits.shape()[1];
  const A scale = static_cast<A>(loss_scale);
  const auto start = [&]<auto kernel>(const LaunchShape& shape, auto... more) {
    launch<kernel>(stream.native(), shape, losses.as<A>(), dlogits.as<T>(), logits.as<L>(),
                   targets.as<int32_t>(), scale, more..., n, logits.pitch(), dlogits.pitch());
  };
  if constexpr (sizeof(T) == 2 && N == kPack<L>) {
    const LaunchShape shape = shape_for_long_rows<L>(rows, n);
    if (shape.grid.x > 0) return start.template operator()<long_rows_kernel<T, L>>(shape, rows);
  }
  start.template operator()<whole_row_kernel<N, T, L>>(blocks_of(rows, n, N));
}

}  // namespace

void softmax_cross_entropy(Stream& stream, TensorView losses, TensorView dlogits, TensorView logits,
                           TensorView, ConstTensorView targets, double loss_scale) {
  dispatch_float(dlogits.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto with_logits = [&]<class L>(L) {
      constexpr unsigned N = kPack<L>;
      const bool in_packs = rows_in_packs<N, T>(dlogits) && rows_in_packs<N, L>(logits);
      dispatch_pack<L>(in_packs, [&](auto pack) {
        whole_rows<pack, T, L>(stream, losses, dlogits, logits, targets, loss_scale);
      });
    };
    if (logits.dtype() == dlogits.dtype()) return with_logits(zero);
    with_logits(Accumulate<T>{});
  });
}

}  // namespace ladder::cuda
