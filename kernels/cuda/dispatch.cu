#include "kernels/dispatch.h"

#include "kernels/cuda/pack.h"
#include "kernels/cuda/warp.h"

namespace ladder::cuda {
namespace {

constexpr unsigned kWarpsOfBlock = 8;

template <unsigned N, class T>
__global__ void gather_rows_kernel(T* out, const T* in, const int32_t* index, size_t n,
                                   size_t columns) {
  const size_t at = thread_index() * N;
  if (at >= n) return;
  const size_t row = static_cast<size_t>(index[at / columns]);
  store(out + at, load<N>(in + row * columns + at % columns));
}

// A thread has N elements of a row. If `residual` is null nothing is added to the sum, and if
// `weights` is null the assignments are not weighted.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void sum_assignments_kernel(T* out, const T* residual, const T* in,
                                       const int32_t* assignments, const A* weights, size_t n,
                                       size_t columns, size_t chosen) {
  const size_t at = thread_index() * N;
  if (at >= n) return;
  const size_t row = at / columns, column = at % columns;
  Pack<A, N> sum{};
  for (size_t j = row * chosen; j < (row + 1) * chosen; ++j) {
    if (assignments[j] < 0) continue;
    const A weight = weights == nullptr ? A{1} : weights[j];
    const auto x = load<N>(in + static_cast<size_t>(assignments[j]) * columns + column);
    for (unsigned i = 0; i < N; ++i) sum.element[i] += weight * x.element[i];
  }
  if (residual != nullptr) {
    const auto x = load<N>(residual + at);
    for (unsigned i = 0; i < N; ++i) sum.element[i] = x.element[i] + sum.element[i];
  }
  store(out + at, sum);
}

// A warp has a choice.
template <unsigned N, class T, class A = Accumulate<T>>
__global__ void combine_backward_kernel(T* din, A* dweights, const T* dout, const T* in,
                                        const int32_t* assignments, const A* weights,
                                        size_t num_choices, size_t columns, size_t chosen) {
  const size_t choice = size_t{blockIdx.x} * kWarpsOfBlock + warp_index();
  if (choice >= num_choices) return;
  A dot = 0;
  if (assignments[choice] >= 0) {
    const A weight = weights[choice];
    const size_t to = static_cast<size_t>(assignments[choice]) * columns;
    const T* const row = dout + choice / chosen * columns;
    for (size_t i = lane_index() * N; i < columns; i += kWarpSize * N) {
      auto d = load<N>(row + i);
      const auto x = load<N>(in + to + i);
      for (unsigned e = 0; e < N; ++e) {
        dot += d.element[e] * x.element[e];
        d.element[e] *= weight;
      }
      store(din + to + i, d);
    }
  }
  dot = warp_sum(dot);
  if (lane_index() == 0) dweights[choice] = dot;
}

template <class T>
void sum_rows(Stream& stream, TensorView out, const T* residual, ConstTensorView in,
              ConstTensorView assignments, const Accumulate<T>* weights) {
  const size_t n = out.num_elements(), columns = out.shape()[1];
  T* const o = out.as<T>();
  const T* const x = in.as<T>();
  const bool packs =
      in_packs(columns, o, x) && (residual == nullptr || in_packs(columns, residual));
  dispatch_pack<T>(packs, [&](auto pack) {
    launch<sum_assignments_kernel<pack, T>>(stream.native(), threads_for(n / pack), o, residual, x,
                                            assignments.as<int32_t>(), weights, n, columns,
                                            assignments.shape()[1]);
  });
}

}  // namespace

void gather_rows(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView index) {
  const size_t n = out.num_elements(), columns = out.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const x = in.as<T>();
    dispatch_pack<T>(in_packs(columns, o, x), [&](auto pack) {
      launch<gather_rows_kernel<pack, T>>(stream.native(), threads_for(n / pack), o, x,
                                          index.as<int32_t>(), n, columns);
    });
  });
}

void sum_assignments(Stream& stream, TensorView out, ConstTensorView in,
                     ConstTensorView assignments) {
  dispatch_float(out.dtype(), [&](auto zero) {
    sum_rows<decltype(zero)>(stream, out, nullptr, in, assignments, nullptr);
  });
}

void combine_forward(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView in,
                     ConstTensorView assignments, ConstTensorView weights) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    sum_rows<T>(stream, out, residual.as<T>(), in, assignments, weights.as<Accumulate<T>>());
  });
}

void combine_backward(Stream& stream, TensorView din, TensorView dweights, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView assignments, ConstTensorView weights) {
  const size_t num_choices = assignments.num_elements(), columns = dout.shape()[1];
  const dim3 grid(static_cast<unsigned>((num_choices + kWarpsOfBlock - 1) / kWarpsOfBlock));
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    const T *const d = dout.as<T>(), *const x = in.as<T>();
    dispatch_pack<T>(in_packs(columns, dx, d, x), [&](auto pack) {
      launch<combine_backward_kernel<pack, T>>(
          stream.native(), {grid, dim3(kWarpsOfBlock * kWarpSize)}, dx, dweights.as<A>(), d, x,
          assignments.as<int32_t>(), weights.as<A>(), num_choices, columns, assignments.shape()[1]);
    });
  });
}

}  // namespace ladder::cuda
