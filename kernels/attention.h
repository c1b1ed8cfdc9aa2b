// Causal multi-head attention without a T x T matrix in memory. Letters and rules:
// kernels/matmul.h.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out = softmax(q k^T / sqrt(HS) + causal mask) v, per sequence and head. [Vaswani17, 3.2.1]
// Keys are taken in blocks with a running maximum and sum (online softmax [Milakov18, Dao22]).
//   qkv (B, T, 3 C) in: per token all of q, then k, then v; head h is columns [h HS, (h+1) HS) of
//   each. C = NH HS.
//   out (B, T, C) out
//   logsumexp (B, NH, T) a, out, saved for backward: the log of each row's sum of exponentials
// NH is logsumexp's middle extent. REQUIRES: T >= 1, NH divides C.
void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv);

// dqkv (B, T, 3 C) = the gradient with respect to qkv (overwritten).
// Probabilities are computed again from q, k and logsumexp, block by block. [Dao22, algorithm 4]
//   dout, out (B, T, C), logsumexp (B, NH, T), qkv (B, T, 3 C) in
//   row_dot (B, NH, T) a, workspace: receives sum over the head of dout * out
void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

// Costs (kernel.h).
// Scores and probabilities exist for keys that a query sees: half of T^2. Forward has two products
// over them, backward five. An exponential for each of them is the other operation that counts.
inline Cost attention_forward_cost(ConstTensorView out, ConstTensorView logsumexp,
                                   ConstTensorView qkv) {
  const double seen = number_of(out.shape()[1]) / 2;  // keys, by an average query
  Cost cost = moving_cost(number_of(logsumexp.num_elements()) * seen, {qkv}, {out, logsumexp});
  cost.product_flops = 2 * 2 * number_of(out.num_elements()) * seen;
  return cost;
}
inline Cost attention_backward_cost(ConstTensorView dqkv, ConstTensorView dout, ConstTensorView out,
                                    ConstTensorView logsumexp, ConstTensorView qkv) {
  const double seen = number_of(out.shape()[1]) / 2;
  Cost cost =
      moving_cost(number_of(logsumexp.num_elements()) * seen, {dout, out, logsumexp, qkv}, {dqkv});
  cost.product_flops = 5 * 2 * number_of(out.num_elements()) * seen;
  return cost;
}

// Bodies, and entries that check what these are given.
namespace cpu {
decltype(ladder::attention_forward) attention_forward;
decltype(ladder::attention_backward) attention_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::attention_forward) attention_forward;
decltype(ladder::attention_backward) attention_backward;
}  // namespace cuda

// (B, NH, T) for tensors of shape (B, T, C), with NH as `logsumexp` has it. A wrong NH is refused.
inline Shape attention_rows(const char* kernel, const Shape& out,
                            const ConstTensorView& logsumexp) {
  const Shape& l = logsumexp.shape();
  const size_t num_heads = l.num_dims() == 3 ? l[1] : 1;
  if (num_heads == 0 || out[2] % num_heads != 0) {
    fail(concat(kernel, ": argument `logsumexp` has shape ", to_string(l), ": ", num_heads,
                " heads do not divide the hidden size ", out[2]));
  }
  return {out[0], num_heads, out[1]};
}

inline void attention_forward(Stream& stream, TensorView out, TensorView logsumexp,
                              ConstTensorView qkv) {
  const ArgumentCheck expect("attention_forward", stream, "out", out, 3);
  const Shape& shape = out.shape();
  expect.accumulated("logsumexp", logsumexp, attention_rows("attention_forward", shape, logsumexp));
  expect("qkv", qkv, {shape[0], shape[1], 3 * shape[2]});
  run_body(cpu::attention_forward, cuda::attention_forward, stream, out, logsumexp, qkv);
}

inline void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot,
                               ConstTensorView dout, ConstTensorView out, ConstTensorView logsumexp,
                               ConstTensorView qkv) {
  const ArgumentCheck expect("attention_backward", stream, "out", out, 3);
  const Shape& shape = out.shape();
  const Shape rows = attention_rows("attention_backward", shape, logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  expect("dqkv", dqkv, {shape[0], shape[1], 3 * shape[2]});
  expect("dout", dout, shape);
  expect("qkv", qkv, {shape[0], shape[1], 3 * shape[2]});
  run_body(cpu::attention_backward, cuda::attention_backward, stream, dqkv, row_dot, dout, out,
           logsumexp, qkv);
}

}  // namespace ladder
