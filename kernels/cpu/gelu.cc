#include "kernels/gelu.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/map.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {

void gelu_forward(TensorView out, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(
        []<class A>(A x) {
          constexpr A kScale = static_cast<A>(kGeluScale), kCube = static_cast<A>(kGeluCubic);
          const A w = kScale * (x + kCube * x * x * x);
          return x / (A(1) + vector_exp(-w));
        },
        in.num_elements(), out.as<T>(), in.as<T>());
  });
}

void gelu_backward(TensorView din, ConstTensorView dout, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(
        []<class A>(A d, A x) {
          constexpr A kScale = static_cast<A>(kGeluScale), kCube = static_cast<A>(kGeluCubic);
          const A square = x * x;
          const A gate = A(1) / (A(1) + vector_exp(-kScale * (x + kCube * square * x)));
          const A slope = kScale * (A(1) + A(3) * kCube * square);
          return d * (gate + x * gate * (A(1) - gate) * slope);
        },
        in.num_elements(), din.as<T>(), dout.as<T>(), in.as<T>());
  });
}

}  // namespace ladder::cpu
