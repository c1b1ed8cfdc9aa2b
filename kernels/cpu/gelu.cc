// GELU on the CPU, in vectors. Read kernels/cpu/plain_gelu.h first.
#include "kernels/gelu.h"

#include "kernels/cpu/map.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {

void gelu_forward(Stream&, TensorView out, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    map(
        [](auto x) {
          constexpr A kScale = static_cast<A>(kGeluScale), kCube = static_cast<A>(kGeluCubic);
          const auto w = kScale * (x + kCube * x * x * x);
          return x / (A(1) + vector_exp(-w));
        },
        in.num_elements(), out.as<T>(), in.as<T>());
  });
}

void gelu_backward(Stream&, TensorView din, ConstTensorView dout, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulate<T>;
    map(
        [](auto d, auto x) {
          constexpr A kScale = static_cast<A>(kGeluScale), kCube = static_cast<A>(kGeluCubic);
          const auto square = x * x;
          const auto gate = A(1) / (A(1) + vector_exp(-kScale * (x + kCube * square * x)));
          const auto slope = kScale * (A(1) + A(3) * kCube * square);
          return d * (gate + x * gate * (A(1) - gate) * slope);
        },
        in.num_elements(), din.as<T>(), dout.as<T>(), in.as<T>());
  });
}

}  // namespace ladder::cpu
