// The end of a sublayer: its output joins the residual stream. Rules: kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// out = residual + (update + bias): the bias of the sublayer's last linear layer is added here,
// once, after what tensor parallelism reduces in between.
//   out, residual, update (R, C); bias (C). out may be residual or update.
void add_residual(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView update,
                  ConstTensorView bias);

}  // namespace ladder
