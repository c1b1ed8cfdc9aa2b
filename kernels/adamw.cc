#include "kernels/adamw.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void adamw(Stream& stream, TensorView param, TensorView exp_avg, TensorView exp_avg_sq,
           ConstTensorView grad, const AdamWStep& step) {
  const ArgumentCheck expect("adamw", stream, "param", param, 1, ArgumentCheck::kAccumulation);
  expect("exp_avg", exp_avg, param.shape());
  expect("exp_avg_sq", exp_avg_sq, param.shape());
  expect("grad", grad, param.shape());
  check(step.step >= 1, "adamw: step is 1-based");
  if (stream.device() == DeviceType::cpu) return cpu::adamw(param, exp_avg, exp_avg_sq, grad, step);
  cuda::adamw(stream, param, exp_avg, exp_avg_sq, grad, step);
}

}  // namespace ladder
