#include "kernels/adamw.h"

namespace ladder::cpu {

void adamw(Stream&, TensorView param, TensorView exp_avg, TensorView exp_avg_sq,
           ConstTensorView grad, const AdamWStep& step) {
  const size_t n = param.num_elements();
  dispatch_accumulation(param.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const AdamWFactors<T> factors(step);
    T* __restrict const p = param.as<T>();
    T* __restrict const m = exp_avg.as<T>();
    T* __restrict const v = exp_avg_sq.as<T>();
    const T* __restrict const g = grad.as<T>();
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; ++i) adamw_element(p[i], m[i], v[i], g[i], factors);
  });
}

}  // namespace ladder::cpu
