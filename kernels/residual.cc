#include "kernels/residual.h"

#include "kernels/cpu/bodies.h"
#include "kernels/cuda/bodies.h"
#include "kernels/runtime/arguments.h"

namespace ladder {

void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias) {
  const ArgumentCheck expect("add_residual", stream, "out", out, 2);
  expect("residual", residual, out.shape());
  expect("update", update, out.shape());
  expect("bias", bias, {out.shape()[1]});
  if (stream.device() == DeviceType::cpu) return cpu::add_residual(out, residual, update, bias);
  cuda::add_residual(stream, out, residual, update, bias);
}

}  // namespace ladder
