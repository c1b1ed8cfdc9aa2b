#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {
namespace {

constexpr size_t kBlock = 1024;
constexpr double kRootTwoOverPi = 0.7978845608028654;
constexpr double kCubic = 0.044715;

// Calls body(first, last) for blocks of fixed boundaries that cover [0, n).
template <class Body>
void for_blocks(size_t n, Body body) {
#pragma omp parallel for schedule(static)
  for (size_t first = 0; first < n; first += kBlock) body(first, std::min(n, first + kBlock));
}

}  // namespace

void gelu_forward(TensorView out, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = in.as<T>();
    T* const o = out.as<T>();
    for_blocks(in.num_elements(), [=](size_t first, size_t last) {
      constexpr T kScale = static_cast<T>(kRootTwoOverPi), kCube = static_cast<T>(kCubic);
#pragma omp simd
      for (size_t i = first; i < last; ++i) {
        const T inner = kScale * (x[i] + kCube * x[i] * x[i] * x[i]);
        o[i] = T(0.5) * x[i] * (T(1) + vector_tanh(inner));
      }
    });
  });
}

void gelu_backward(TensorView din, ConstTensorView dout, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *const x = in.as<T>(), *const d = dout.as<T>();
    T* const dx = din.as<T>();
    for_blocks(in.num_elements(), [=](size_t first, size_t last) {
      constexpr T kScale = static_cast<T>(kRootTwoOverPi), kCube = static_cast<T>(kCubic);
#pragma omp simd
      for (size_t i = first; i < last; ++i) {
        const T square = x[i] * x[i];
        const T t = vector_tanh(kScale * (x[i] + kCube * square * x[i]));
        const T slope = kScale * (T(1) + T(3) * kCube * square);
        dx[i] = d[i] * (T(0.5) * (T(1) + t) + T(0.5) * x[i] * (T(1) - t * t) * slope);
      }
    });
  });
}

}  // namespace ladder::cpu
