// The end of a sublayer: its output joins the residual stream. Rules: kernels/matmul.h.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out = residual + (update + bias): the bias of the sublayer's last linear layer is added here,
// once, after what tensor parallelism reduces in between.
//   out, residual, update (R, C); bias (C). out may be residual or update.
void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias);

// Costs (kernel.h).
inline Cost add_residual_cost(ConstTensorView out, ConstTensorView bias) {
  return moving_cost(2 * number_of(out.num_elements()), {out, out, bias}, {out});
}

// Bodies, and entries that check what these are given.
namespace cpu {
decltype(ladder::add_residual) add_residual;
}  // namespace cpu

namespace cuda {
decltype(ladder::add_residual) add_residual;
}  // namespace cuda

inline void add_residual(Stream& stream, TensorView out, ConstTensorView residual,
                         ConstTensorView update, ConstTensorView bias) {
  const ArgumentCheck expect("add_residual", stream, "out", out, 2);
  expect("residual", residual, out.shape());
  expect("update", update, out.shape());
  expect("bias", bias, {out.shape()[1]});
  run_body(cpu::add_residual, cuda::add_residual, stream, out, residual, update, bias);
}

}  // namespace ladder
