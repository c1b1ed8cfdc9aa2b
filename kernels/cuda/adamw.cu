#include "kernels/adamw.h"

#include "kernels/cuda/pack.h"

namespace ladder::cuda {
namespace {

template <unsigned N, class T>
__global__ void adamw_kernel(AdamWFactors<T> factors, size_t n, T* param, T* exp_avg, T* exp_avg_sq,
                             const T* grad) {
  const size_t first = thread_index() * N;
  if (first + N <= n) {
    Pack<T, N> p = load<N>(param + first), m = load<N>(exp_avg + first);
    Pack<T, N> v = load<N>(exp_avg_sq + first);
    const Pack<T, N> g = load<N>(grad + first);
    for (unsigned k = 0; k < N; ++k) {
      adamw_element(p.element[k], m.element[k], v.element[k], g.element[k], factors);
    }
    store(param + first, p);
    store(exp_avg + first, m);
    store(exp_avg_sq + first, v);
  } else {
    for (size_t i = first; i < n; ++i) {
      adamw_element(param[i], exp_avg[i], exp_avg_sq[i], grad[i], factors);
    }
  }
}

}  // namespace

void adamw(Stream& stream, TensorView param, TensorView exp_avg, TensorView exp_avg_sq,
           ConstTensorView grad, const AdamWStep& step) {
  const size_t n = param.num_elements();
  dispatch_accumulation(param.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T *const p = param.as<T>(), *const m = exp_avg.as<T>(), *const v = exp_avg_sq.as<T>();
    const T* const g = grad.as<T>();
    const AdamWFactors<T> factors(step);
    dispatch_pack<T>(packs_are_aligned<kPack<T>>(p, m, v, g), [&](auto pack) {
      launch<adamw_kernel<pack, T>>(stream.native(), threads_for((n + pack - 1) / pack), factors, n,
                                    p, m, v, g);
    });
  });
}

}  // namespace ladder::cuda
