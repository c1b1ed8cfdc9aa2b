#include "kernels/dispatch.h"

#include <algorithm>

#include "kernels/cpu/lane_sum.h"
#include "kernels/cpu/map.h"

namespace ladder::cpu {
namespace {

// out = begin + sum over j of weight(j) in[assignments[j]], for one row of n elements. `begin` may
// be null.
template <class T, class WeightOf>
void sum_row(size_t n, T* out, const T* begin, const T* in, const int32_t* assignments,
             size_t chosen, WeightOf weight_of) {
  using A = Accumulate<T>;
  for (size_t i = 0; i < n; ++i) {
    A sum = 0;
    for (size_t j = 0; j < chosen; ++j) {
      if (assignments[j] < 0) continue;
      sum += weight_of(j) * static_cast<A>(in[static_cast<size_t>(assignments[j]) * n + i]);
    }
    out[i] = static_cast<T>(begin == nullptr ? sum : static_cast<A>(begin[i]) + sum);
  }
}

}  // namespace

void gather_rows(Stream&, TensorView out, ConstTensorView in, ConstTensorView index) {
  const size_t rows = out.shape()[0], n = out.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const x = in.as<T>();
    const int32_t* const from = index.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < rows; ++i) {
      std::copy_n(x + static_cast<size_t>(from[i]) * n, n, o + i * n);
    }
  });
}

void sum_assignments(Stream&, TensorView out, ConstTensorView in, ConstTensorView assignments) {
  const size_t rows = out.shape()[0], n = out.shape()[1], k = assignments.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const x = in.as<T>();
    const int32_t* const assignment = assignments.as<int32_t>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      sum_row<T>(n, o + r * n, nullptr, x, assignment + r * k, k,
                 [](size_t) { return Accumulate<T>{1}; });
    }
  });
}

void combine_forward(Stream&, TensorView out, ConstTensorView residual, ConstTensorView in,
                     ConstTensorView assignments, ConstTensorView weights) {
  const size_t rows = out.shape()[0], n = out.shape()[1], k = assignments.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T *const x = in.as<T>(), *const begin = residual.as<T>();
    const int32_t* const assignment = assignments.as<int32_t>();
    const Accumulate<T>* const w = weights.as<Accumulate<T>>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      sum_row<T>(n, o + r * n, begin + r * n, x, assignment + r * k, k,
                 [w, r, k](size_t j) { return w[r * k + j]; });
    }
  });
}

void combine_backward(Stream&, TensorView din, TensorView dweights, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView assignments, ConstTensorView weights) {
  const size_t rows = dout.shape()[0], n = dout.shape()[1], k = assignments.shape()[1];
  dispatch_float(dout.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    A* const dw = dweights.as<A>();
    const T *const d = dout.as<T>(), *const x = in.as<T>();
    const int32_t* const assignment = assignments.as<int32_t>();
    const A* const w = weights.as<A>();
#pragma omp parallel for schedule(static)
    for (size_t choice = 0; choice < rows * k; ++choice) {
      dw[choice] = 0;
      if (assignment[choice] < 0) continue;
      const T* const row = d + choice / k * n;
      const size_t to = static_cast<size_t>(assignment[choice]) * n;
      const A weight = w[choice];
      map_in_thread([weight](auto v) { return weight * v; }, n, dx + to, row);
      dw[choice] = lane_sum<A>(
          n, [](auto a, auto b) { return a * b; }, row, x + to);
    }
  });
}

}  // namespace ladder::cpu
