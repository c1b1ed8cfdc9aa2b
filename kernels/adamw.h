// The update of AdamW [Loshchilov19].
#pragma once

#include <cmath>
#include <cstdint>

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

// Updates each element of param, exp_avg and exp_avg_sq from grad. All four are (n), in fp32 or
// fp64. (Parameters in bf16 and fp16 are copies, which `cast` rounds.) The gradient keeps its
// values.
void adamw(Stream& stream, TensorView param, TensorView exp_avg, TensorView exp_avg_sq,
           ConstTensorView grad, const AdamWStep& step);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost adamw_cost(ConstTensorView param) {
  return moving_cost(14 * number_of(param.num_elements()), {param, param, param, param},
                     {param, param, param});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::adamw) adamw;
}  // namespace cpu

namespace cuda {
decltype(ladder::adamw) adamw;
}  // namespace cuda

inline void adamw(Stream& stream, TensorView param, TensorView exp_avg, TensorView exp_avg_sq,
                  ConstTensorView grad, const AdamWStep& step) {
  const ArgumentCheck expect("adamw", stream, "param", param, 1, ArgumentCheck::kAccumulation);
  expect("exp_avg", exp_avg, param.shape());
  expect("exp_avg_sq", exp_avg_sq, param.shape());
  expect("grad", grad, param.shape());
  check(step.step >= 1, "adamw: step is 1-based");
  run_body(expect, adamw_cost(param), cpu::adamw, cuda::adamw, stream, param, exp_avg, exp_avg_sq,
           grad, step);
}

}  // namespace ladder
