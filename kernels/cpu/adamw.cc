#include "kernels/adamw.h"

#include "kernels/elementwise.h"

namespace ladder::cpu {
namespace {

template <class T>
void update(const AdamWTensors& tensors, const AdamWFactors<T>& factors) {
  const size_t n = tensors.param.num_elements();
  T* __restrict const p = tensors.param.as<T>();
  T* __restrict const m = tensors.exp_avg.as<T>();
  T* __restrict const v = tensors.exp_avg_sq.as<T>();
  const T* __restrict const g = tensors.grad.as<T>();
#pragma omp parallel for simd schedule(static)
  for (size_t i = 0; i < n; ++i) adamw_element(p[i], m[i], v[i], g[i], factors);
}

}  // namespace

void adamw(Stream& stream, const std::vector<AdamWTensors>& tensors, const AdamWStep& step) {
  AdamWStep no_decay = step;
  no_decay.weight_decay = 0;
  dispatch_accumulation(tensors.front().param.dtype(), [&](auto zero) {
    const AdamWFactors<decltype(zero)> decaying(step), other(no_decay);
    for (const AdamWTensors& one : tensors) {
      update(one, one.decays ? decaying : other);
      if (!one.copy.empty()) cpu::cast(stream, one.copy, one.param);
    }
  });
}

}  // namespace ladder::cpu
