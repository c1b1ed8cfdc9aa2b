#include "kernels/gelu.h"

#include <cmath>

#include "kernels/cuda/map.h"

namespace ladder::cuda {
namespace {

template <class T>
struct Gelu {
  __device__ T operator()(T x) const {
    constexpr T kScale = static_cast<T>(kGeluScale), kCube = static_cast<T>(kGeluCubic);
    const T w = kScale * (x + kCube * x * x * x);
    return x / (T(1) + std::exp(-w));
  }
};

template <class T>
struct GeluBackward {
  __device__ T operator()(T dout, T x) const {
    constexpr T kScale = static_cast<T>(kGeluScale), kCube = static_cast<T>(kGeluCubic);
    const T square = x * x;
    const T gate = T(1) / (T(1) + std::exp(-kScale * (x + kCube * square * x)));
    const T slope = kScale * (T(1) + T(3) * kCube * square);
    return dout * (gate + x * gate * (T(1) - gate) * slope);
  }
};

}  // namespace

void gelu_forward(Stream& stream, TensorView out, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, Gelu<Accumulate<T>>(), in.num_elements(), out.as<T>(), in.as<T>());
  });
}

void gelu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map(stream, GeluBackward<Accumulate<T>>(), in.num_elements(), din.as<T>(), dout.as<T>(),
        in.as<T>());
  });
}

}  // namespace ladder::cuda
