#include <algorithm>

#include "kernels/cpu/bodies.h"
#include "kernels/cpu/math.h"

namespace ladder::cpu {
namespace {

constexpr size_t kBlock = 1024;
constexpr double kRootEightOverPi = 1.5957691216057308;
constexpr double kCubic = 0.044715;

// Calls body(first, last) for blocks of fixed boundaries that cover [0, n).
template <class Body>
void for_blocks(size_t n, Body body) {
#pragma omp parallel for schedule(static)
  for (size_t first = 0; first < n; first += kBlock) body(first, std::min(n, first + kBlock));
}

}  // namespace

// With (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)) =: gate, and w = 2 u, the functions need one
// exponential and one division: exp is faster than tanh, and nothing cancels where tanh is near -1.
//   out = in * gate(w),  w = sqrt(8/pi) (in + 0.044715 in^3)
//   derivative = gate + in * gate * (1 - gate) * w'

void gelu_forward(TensorView out, ConstTensorView in) {
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* const x = in.as<T>();
    T* const o = out.as<T>();
    for_blocks(in.num_elements(), [=](size_t first, size_t last) {
      constexpr T kScale = static_cast<T>(kRootEightOverPi), kCube = static_cast<T>(kCubic);
#pragma omp simd
      for (size_t i = first; i < last; ++i) {
        const T w = kScale * (x[i] + kCube * x[i] * x[i] * x[i]);
        o[i] = x[i] / (T(1) + vector_exp(-w));
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
      constexpr T kScale = static_cast<T>(kRootEightOverPi), kCube = static_cast<T>(kCubic);
#pragma omp simd
      for (size_t i = first; i < last; ++i) {
        const T square = x[i] * x[i];
        const T gate = T(1) / (T(1) + vector_exp(-kScale * (x[i] + kCube * square * x[i])));
        const T slope = kScale * (T(1) + T(3) * kCube * square);
        dx[i] = d[i] * (gate + x[i] * gate * (T(1) - gate) * slope);
      }
    });
  });
}

}  // namespace ladder::cpu
