#include "kernels/elementwise.h"
#include "kernels/residual.h"

#include "kernels/cpu/map.h"
#include "kernels/runtime/random.h"

namespace ladder::cpu {
void fill(Stream&, TensorView out, double value) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const size_t n = out.num_elements();
    const T v = static_cast<T>(value);
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; ++i) o[i] = v;
  });
}

void add(Stream&, TensorView out, ConstTensorView a, ConstTensorView b) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map([](auto x, auto y) { return x + y; }, out.num_elements(), out.as<T>(), a.as<T>(),
        b.as<T>());
  });
}

void scale(Stream&, TensorView out, ConstTensorView in, double factor) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto f = static_cast<Accumulate<T>>(factor);
    map([f](auto x) { return f * x; }, out.num_elements(), out.as<T>(), in.as<T>());
  });
}

void add_scaled(Stream&, TensorView out, ConstTensorView a, double factor, ConstTensorView b) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto f = static_cast<Accumulate<T>>(factor);
    map([f](auto x, auto y) { return f * x + y; }, out.num_elements(), out.as<T>(), a.as<T>(),
        b.as<T>());
  });
}

void cast(Stream&, TensorView out, ConstTensorView in) {
  const size_t n = out.num_elements();
  dispatch_float(out.dtype(), [&](auto out_zero) {
    dispatch_float(in.dtype(), [&](auto in_zero) {
      using To = decltype(out_zero);
      using From = decltype(in_zero);
      To* const o = out.as<To>();
      const From* const x = in.as<From>();
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < n; i += kTile) convert(o + i, x + i, std::min(kTile, n - i));
    });
  });
}

void fill_normal(Stream&, TensorView out, uint64_t key, uint64_t first, double deviation) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const o = out.as<T>();
    const size_t n = out.num_elements();
    const A factor = static_cast<A>(deviation / kNormalDeviation);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; ++i) {
      o[i] = static_cast<T>(factor * static_cast<A>(random_normal_integer(key, first + i)));
    }
  });
}

void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias) {
  if (bias.empty()) return cpu::add(stream, out, residual, update);
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map_rows([](auto b, auto x, auto u) { return x + (u + b); }, out.shape()[0], out.shape()[1], 1,
             out.as<T>(), bias.as<T>(), residual.as<T>(), update.as<T>());
  });
}

}  // namespace ladder::cpu
