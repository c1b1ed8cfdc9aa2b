// The update of AdamW [Loshchilov19].
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace ladder {

// What one update needs besides the tensors. It is the same for every element.
struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;
  double grad_scale = 1;  // the factor of the gradient: that of clipping, divided by the loss scale
  int64_t step = 1;       // the number of the update, from 1; moments are divided by 1 - beta^step
};

// The factors that the update of an element needs, computed from AdamWStep and rounded once to T.
template <class T>
struct AdamWFactors {
  explicit AdamWFactors(const AdamWStep& s)
      : beta1(static_cast<T>(s.beta1)),
        one_minus_beta1(static_cast<T>(1 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        one_minus_beta2(static_cast<T>(1 - s.beta2)),
        grad_scale(static_cast<T>(s.grad_scale)),
        epsilon(static_cast<T>(s.epsilon)),
        keep(static_cast<T>(1 - s.learning_rate * s.weight_decay)),
        step_size(static_cast<T>(s.learning_rate / (1 - std::pow(s.beta1, s.step)))),
        root_correction(static_cast<T>(1 / std::sqrt(1 - std::pow(s.beta2, s.step)))) {}

  T beta1, one_minus_beta1, beta2, one_minus_beta2, grad_scale, epsilon;
  T keep;             // 1 - learning_rate * weight_decay
  T step_size;        // learning_rate / (1 - beta1^step)
  T root_correction;  // 1 / sqrt(1 - beta2^step)
};

// Updates one element. Every device runs this function, so all agree to the bit: multiplications
// and additions are rounded one by one, in this order. (It is constexpr so that device code may
// call it.)
template <class T>
constexpr void adamw_element(T& param, T& exp_avg, T& exp_avg_sq, T grad,
                             const AdamWFactors<T>& f) {
  const T g = grad * f.grad_scale;
  const T m = f.beta1 * exp_avg + f.one_minus_beta1 * g;
  const T v = f.beta2 * exp_avg_sq + f.one_minus_beta2 * (g * g);
  exp_avg = m;
  exp_avg_sq = v;
  param = f.keep * param - f.step_size * m / (std::sqrt(v) * f.root_correction + f.epsilon);
}

// A parameter, or a range of its elements, with its moments and its gradient. All are (n).
struct AdamWTensors {
  TensorView param, exp_avg, exp_avg_sq;  // in fp32 or fp64
  ConstTensorView grad;                   // in the same dtype
  TensorView copy = {};                   // of the parameter, in bf16 or fp16; empty: there is none
  bool decays = true;                     // false: as if the weight decay were 0
};

// Updates each element of param, exp_avg and exp_avg_sq of all these tensors from its gradient,
// which keeps its value. Then sets the copies to the parameters, which are fp32, rounded: where the
// model computes in 16 bits, it reads the copies. All tensors have the dtype of the first, and all
// copies that of its copy. A GPU needs a launch for some fifty tensors that do not lie side by
// side, so give it those of the whole model at once.
void adamw(Stream& stream, const std::vector<AdamWTensors>& tensors, const AdamWStep& step);

// What each kernel computes and moves (Cost in kernel.h).
inline constexpr double kAdamWFlops = 14;  // of an element
inline Cost adamw_cost(const std::vector<AdamWTensors>& tensors) {
  Cost cost;
  for (const auto& [param, exp_avg, exp_avg_sq, grad, copy, decays] : tensors) {
    cost += moving_cost(kAdamWFlops * number_of(param.num_elements()),
                        {param, exp_avg, exp_avg_sq, grad}, {param, exp_avg, exp_avg_sq});
    if (!copy.empty()) cost += moving_cost(0, {}, {copy});
  }
  return cost;
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::adamw) adamw;
}  // namespace cpu

namespace cuda {
decltype(ladder::adamw) adamw;
}  // namespace cuda

inline void adamw(Stream& stream, const std::vector<AdamWTensors>& tensors, const AdamWStep& step) {
  if (tensors.empty()) return;
  const ArgumentCheck expect("adamw", stream, "param", tensors.front().param, 1,
                             ArgumentCheck::kAccumulation);
  const TensorView& first_copy = tensors.front().copy;
  for (const auto& [param, exp_avg, exp_avg_sq, grad, copy, decays] : tensors) {
    expect("param", param, {param.num_elements()});
    expect("exp_avg", exp_avg, param.shape());
    expect("exp_avg_sq", exp_avg_sq, param.shape());
    expect("grad", grad, param.shape());
    if (first_copy.empty() && copy.empty()) continue;
    expect("copy", copy, {DType::bf16, DType::fp16}, param.shape());
    expect("copy", copy, first_copy.dtype(), param.shape());
    check(expect.dtype() == DType::fp32, "adamw: argument `copy` belongs to parameters in fp32");
  }
  check(step.step >= 1, "adamw: step is 1-based");
  run_body(expect, adamw_cost(tensors), cpu::adamw, cuda::adamw, stream, tensors, step);
}

}  // namespace ladder
