// The end of a sublayer, where its output is added to the residual stream.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out = residual + (update + bias), for R rows of C elements. `bias` is that of the sublayer's last
// linear layer. It is added here, after tensor-parallel ranks have summed `update`, so that it
// counts once; if it is empty there is none. out may be residual or update.
//   out (R, C) out; residual, update (R, C), bias (C) in
void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost add_residual_cost(ConstTensorView out, ConstTensorView bias) {
  const double sums = bias.empty() ? 1 : 2;
  return moving_cost(sums * number_of(out.num_elements()), {out, out, bias}, {out});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
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
  if (!bias.empty()) expect("bias", bias, {out.shape()[1]});
  run_body(expect, add_residual_cost(out, bias), cpu::add_residual, cuda::add_residual, stream, out,
           residual, update, bias);
}

}  // namespace ladder
