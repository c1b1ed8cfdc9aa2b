#include "kernels/elementwise.h"

#include "kernels/cpu/bodies.h"
#include "kernels/runtime/random.h"

namespace ladder::cpu {

void fill(TensorView out, double value) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const size_t n = out.num_elements();
    const T v = static_cast<T>(value);
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; ++i) o[i] = v;
  });
}

void add(TensorView out, ConstTensorView a, ConstTensorView b) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T *const x = a.as<T>(), *const y = b.as<T>();
    const size_t n = out.num_elements();
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; ++i) o[i] = x[i] + y[i];
  });
}

void scale(TensorView out, ConstTensorView in, double factor) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const x = in.as<T>();
    const size_t n = out.num_elements();
    const T f = static_cast<T>(factor);
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; ++i) o[i] = f * x[i];
  });
}

void cast(TensorView out, ConstTensorView in) {
  dispatch_float(out.dtype(), [&](auto out_zero) {
    dispatch_float(in.dtype(), [&](auto in_zero) {
      using To = decltype(out_zero);
      To* const o = out.as<To>();
      const auto* const x = in.as<decltype(in_zero)>();
      const size_t n = out.num_elements();
#pragma omp parallel for simd schedule(static)
      for (size_t i = 0; i < n; ++i) o[i] = static_cast<To>(x[i]);
    });
  });
}

void fill_normal(TensorView out, uint64_t key, uint64_t first, double deviation) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const size_t n = out.num_elements();
    const T factor = static_cast<T>(deviation / kNormalDeviation);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; ++i) {
      o[i] = factor * static_cast<T>(random_normal_integer(key, first + i));
    }
  });
}

void add_residual(TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias) {
  const size_t rows = out.shape()[0], n = out.shape()[1];
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T *const x = residual.as<T>(), *const u = update.as<T>(), *const b = bias.as<T>();
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = r * n; i < (r + 1) * n; ++i) o[i] = x[i] + (u[i] + b[i - r * n]);
    }
  });
}

}  // namespace ladder::cpu
