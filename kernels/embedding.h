// Token and position embedding. Letters and rules: kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// out[b, t, :] = table[tokens[b, t], :].
//   out (B, T, C); tokens (B, T) int32; table (V, C)
// REQUIRES: 0 <= token < V (checked where the data is read, not here).
void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                       ConstTensorView table);

// dtable[tokens[b, t], :] += dout[b, t, :], in order of (b, t) for every element, so the bits do
// not depend on the threads.
void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                        ConstTensorView dout);

// out[b, t, :] += table[t, :].
//   out (B, T, C); table (at least T rows, C)
void position_forward(Stream& stream, TensorView out, ConstTensorView table);

// dtable[t, :] += sum over b, in order, of dout[b, t, :].
void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout);

}  // namespace ladder
