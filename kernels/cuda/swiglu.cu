#include "kernels/swiglu.h"

#include <cmath>

#include "kernels/cuda/pack.h"

namespace ladder::cuda {
namespace {

// A thread has a pack of `out`, n elements in rows of so many columns. Its gates and ups lie in two
// packs of `in`, `columns` apart.
__device__ size_t gates_of(size_t i, size_t columns) { return i + i / columns * columns; }

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void swiglu_forward_kernel(T* out, const T* in, size_t n, size_t columns) {
  const size_t i = thread_index() * N;
  if (i >= n) return;
  const size_t gates = gates_of(i, columns);
  auto gate = load<N>(in + gates);
  const auto up = load<N>(in + gates + columns);
  for (unsigned k = 0; k < N; ++k) {
    const A g = gate.element[k];
    gate.element[k] = g / (A{1} + std::exp(-g)) * up.element[k];
  }
  store(out + i, gate);
}

template <unsigned N, class T, class A = Accumulate<T>>
__global__ void swiglu_backward_kernel(T* din, const T* dout, const T* in, size_t n,
                                       size_t columns) {
  const size_t i = thread_index() * N;
  if (i >= n) return;
  const size_t gates = gates_of(i, columns);
  auto gate = load<N>(in + gates), up = load<N>(in + gates + columns);
  const auto d = load<N>(dout + i);
  for (unsigned k = 0; k < N; ++k) {
    A &g = gate.element[k], &u = up.element[k];
    const A s = A{1} / (A{1} + std::exp(-g)), silu = g * s;
    g = d.element[k] * u * (s + silu * (A{1} - s));
    u = d.element[k] * silu;
  }
  store(din + gates, gate);
  store(din + gates + columns, up);
}

}  // namespace

void swiglu_forward(Stream& stream, TensorView out, ConstTensorView in) {
  const size_t n = out.num_elements(), columns = out.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const o = out.as<T>();
    const T* const x = in.as<T>();
    dispatch_pack<T>(in_packs(columns, o, x), [&](auto pack) {
      launch<swiglu_forward_kernel<decltype(pack)::value, T>>(
          stream.native(), threads_for(n / pack), o, x, n, columns);
    });
  });
}

void swiglu_backward(Stream& stream, TensorView din, ConstTensorView dout, ConstTensorView in) {
  const size_t n = dout.num_elements(), columns = dout.shape()[1];
  dispatch_float(in.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const dx = din.as<T>();
    const T *const d = dout.as<T>(), *const x = in.as<T>();
    dispatch_pack<T>(in_packs(columns, dx, d, x), [&](auto pack) {
      launch<swiglu_backward_kernel<decltype(pack)::value, T>>(
          stream.native(), threads_for(n / pack), dx, d, x, n, columns);
    });
  });
}

}  // namespace ladder::cuda
