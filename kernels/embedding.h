// Token and position embedding. Letters and rules: kernels/matmul.h.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// out[b, t, :] = table[tokens[b, t] - first, :], or zeros where tokens[b, t] is outside
// [first, first + rows of the table): another rank holds it.
//   out (B, T, C); tokens (B, T) int32; table (V or a slice of it, C); first: the vocabulary index
//   of row 0
// That tokens are below the whole V is checked where the data is read, not here.
void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                       ConstTensorView table, size_t first = 0);

// dtable[tokens[b, t] - first, :] += dout[b, t, :] where the table has that row, in order of (b, t)
// for every element, so the bits do not depend on the threads.
//   dout x; dtable a
void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                        ConstTensorView dout, size_t first = 0);

// out[b, t, :] = in[b, t, :] + table[t, :].
//   out, in (B, T, C); table (at least T rows, C). out may be in.
void position_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView table);

// dtable[t, :] += sum over b, in order, of dout[b, t, :].
//   dout x; dtable a
void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout);

}  // namespace ladder
