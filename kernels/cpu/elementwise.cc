#include "kernels/elementwise.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/map.h"
#include "kernels/runtime/random.h"

namespace ladder::cpu {
namespace {

// to[i] = from[i], rounded once.
template <class To, class From>
void convert(To* to, const From* from, size_t n) {
  if constexpr (is_low_precision<To> && std::is_same_v<From, float>) {
    narrow(to, from, n);
  } else if constexpr (is_low_precision<From> && std::is_same_v<To, float>) {
    widen(to, from, n);
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
  }
}

}  // namespace

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
    map([](auto x, auto y) { return x + y; }, out.num_elements(), out.as<T>(), a.as<T>(),
        b.as<T>());
  });
}

void scale(TensorView out, ConstTensorView in, double factor) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto f = static_cast<Accumulate<T>>(factor);
    map([f](auto x) { return f * x; }, out.num_elements(), out.as<T>(), in.as<T>());
  });
}

void cast(TensorView out, ConstTensorView in) {
  const size_t n = out.num_elements();
  dispatch_float(out.dtype(), [&](auto out_zero) {
    dispatch_float(in.dtype(), [&](auto in_zero) {
      using To = decltype(out_zero);
      using From = decltype(in_zero);
      To* const o = out.as<To>();
      const From* const x = in.as<From>();
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < n; i += kBlock) convert(o + i, x + i, std::min(kBlock, n - i));
    });
  });
}

void fill_normal(TensorView out, uint64_t key, uint64_t first, double deviation) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    T* const o = out.as<T>();
    const size_t n = out.num_elements();
    const A factor = static_cast<A>(deviation / kNormalDeviation);
#pragma omp parallel for schedule(static)
    for (size_t begin = 0; begin < n; begin += kBlock) {
      const size_t size = std::min(kBlock, n - begin);
      Narrowed<T> block(o + begin, size);
      for (size_t i = 0; i < size; ++i) {
        block[i] = factor * static_cast<A>(random_normal_integer(key, first + begin + i));
      }
    }
  });
}

void add_residual(TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias) {
  dispatch_float(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map_rows([](auto b, auto x, auto u) { return x + (u + b); }, out.shape()[0], out.shape()[1], 1,
             out.as<T>(), bias.as<T>(), residual.as<T>(), update.as<T>());
  });
}

}  // namespace ladder::cpu
