// SwiGLU on the CPU, in vectors; a thread has whole rows. Read kernels/cpu/plain_swiglu.h first.
#include "kernels/swiglu.h"

#include "kernels/cpu/map.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {

void swiglu_forward(Stream&, TensorView out, ConstTensorView in) {
  const size_t rows = out.shape()[0], n = out.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const o = out.as<T>();
    const T* const x = in.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const T *const gate = x + 2 * r * n, *const up = gate + n;
      map_in_thread([](auto g, auto u) { return g / (A(1) + vector_exp(-g)) * u; }, n, o + r * n,
                    gate, up);
    }
  });
}

void swiglu_backward(Stream&, TensorView din, ConstTensorView dout, ConstTensorView in) {
  const size_t rows = dout.shape()[0], n = dout.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const dx = din.as<T>();
    const T *const d = dout.as<T>(), *const x = in.as<T>();
    const auto gradients = [](auto dv, auto g, auto u) {
      const auto s = A(1) / (A(1) + vector_exp(-g)), silu = g * s;
      return std::pair(dv * u * (s + silu * (A(1) - s)), dv * silu);
    };
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      const size_t gate = 2 * r * n, up = gate + n;
      map_pairs_in_thread(gradients, n, dx + gate, dx + up, d + r * n, x + gate, x + up);
    }
  });
}

}  // namespace ladder::cpu
