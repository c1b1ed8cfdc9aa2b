// What joins the results of several score tiles over other keys each (attention_of_tile.h).
#pragma once

#include "kernels/attention.h"

namespace ladder {

// Merges partial results over other keys into those of queries [first, first + count) of each
// sequence. The results over some keys are out, and logsumexp, the log of the sum of the
// exponentials of their scores. With l and m for a query's two logsumexps
//   out = (exp(l) out + exp(m) partial_out) / (exp(l) + exp(m))
//   logsumexp = log(exp(l) + exp(m))
// and no exponential overflows. [Milakov18; Liu23, section 3]
//   out, partial_out (B, T, C), logsumexp, partial_logsumexp (B, NH, T), all in the accumulation
//   dtype; out and logsumexp in/out
void attention_merge(Stream& stream, TensorView out, TensorView logsumexp,
                     ConstTensorView partial_out, ConstTensorView partial_logsumexp, size_t first,
                     size_t count);

// row_dot (B, NH, T) = the sum over each head of dout * out. Backward of every score tile
// needs it.
//   row_dot out, in the accumulation dtype; dout, out (B, T, C) in
void attention_row_dot(Stream& stream, TensorView row_dot, ConstTensorView dout,
                       ConstTensorView out);

// What each kernel computes and moves (Cost in kernel.h). A merge has two products and a sum for an
// element, and for a head's query two exponentials, a sum, a logarithm and two divisions.
inline Cost attention_merge_cost(ConstTensorView out, ConstTensorView logsumexp) {
  return moving_cost(3 * number_of(out.num_elements()) + 6 * number_of(logsumexp.num_elements()),
                     {out, out, logsumexp, logsumexp}, {out, logsumexp});
}
inline Cost attention_row_dot_cost(ConstTensorView row_dot, ConstTensorView dout) {
  return moving_cost(2 * number_of(dout.num_elements()), {dout, dout}, {row_dot});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::attention_merge) attention_merge;
decltype(ladder::attention_row_dot) attention_row_dot;
}  // namespace cpu

namespace cuda {
decltype(ladder::attention_merge) attention_merge;
decltype(ladder::attention_row_dot) attention_row_dot;
}  // namespace cuda

inline void attention_merge(Stream& stream, TensorView out, TensorView logsumexp,
                            ConstTensorView partial_out, ConstTensorView partial_logsumexp,
                            size_t first, size_t count) {
  const ArgumentCheck expect("attention_merge", stream, "out", out, 3,
                             ArgumentCheck::kAccumulation);
  const Shape rows = attention_rows("attention_merge", out.shape(), logsumexp);
  expect("logsumexp", logsumexp, rows);
  expect("partial_out", partial_out, out.shape());
  expect("partial_logsumexp", partial_logsumexp, rows);
  check(first <= rows[2] && count <= rows[2] - first, "attention_merge: queries out of range");
  run_body(expect, attention_merge_cost(out, logsumexp), cpu::attention_merge,
           cuda::attention_merge, stream, out, logsumexp, partial_out, partial_logsumexp, first,
           count);
}

inline void attention_row_dot(Stream& stream, TensorView row_dot, ConstTensorView dout,
                              ConstTensorView out) {
  const ArgumentCheck expect("attention_row_dot", stream, "dout", dout, 3);
  expect("out", out, dout.shape());
  expect.accumulated("row_dot", row_dot,
                     attention_rows("attention_row_dot", dout.shape(), row_dot));
  run_body(expect, attention_row_dot_cost(row_dot, dout), cpu::attention_row_dot,
           cuda::attention_row_dot, stream, row_dot, dout, out);
}

}  // namespace ladder
