// Causal multi-head attention without a T x T matrix in memory. Read cpu/plain_attention.h first:
// it is the same computation as plain loops. Here B sequences have T tokens of C elements, which
// are NH heads of HS elements.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out = softmax(q k^T / sqrt(HS) + causal mask) v, for each sequence and head. [Vaswani17, 3.2.1]
// It goes through the keys tile by tile, with a running maximum and sum (online softmax [Milakov18,
// Dao22]).
//   qkv (B, T, 3 C) in: for each token all of q, then k, then v; head h has columns
//   [h HS, (h+1) HS) of each
//   out (B, T, C) out
//   logsumexp (B, NH, T) out, in the accumulation dtype: for each query the log of the sum of the
//   exponentials of its scores; saved for backward
// On a GPU's tensor cores (bf16 and fp16, kernels/cuda/README.md) the exponentials are rounded to
// the compute dtype before they meet v. In backward so are the gradients of the scores before they
// meet q and k.
// The middle extent of logsumexp says what NH is. REQUIRES: T >= 1, NH divides C.
void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv);

// dqkv (B, T, 3 C) = the gradient with respect to qkv; it is overwritten. Probabilities are
// computed again from q, k and logsumexp, tile by tile. [Dao22, algorithm 4]
//   dout, out (B, T, C), logsumexp (B, NH, T), qkv (B, T, 3 C) in
//   row_dot (B, NH, T) workspace, in the accumulation dtype: receives for each query the sum over
//   the head of dout * out
void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv);

// What each kernel computes and moves (Cost in kernel.h).
// A query sees half of the keys on average, so there are T^2 / 2 scores in each head. Forward has
// two products over the scores, backward five. The exponentials are the only other operations that
// count.
inline Cost attention_forward_cost(ConstTensorView out, ConstTensorView logsumexp,
                                   ConstTensorView qkv) {
  const double seen = number_of(out.shape()[1]) / 2;  // the keys that an average query sees
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

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::attention_forward) attention_forward;
decltype(ladder::attention_backward) attention_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::attention_forward) attention_forward;
decltype(ladder::attention_backward) attention_backward;
}  // namespace cuda

// Returns (B, NH, T) for an `out` of (B, T, C), with the NH of `logsumexp`. Throws an Error if NH
// does not divide C.
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
  run_body(expect, attention_forward_cost(out, logsumexp, qkv), cpu::attention_forward,
           cuda::attention_forward, stream, out, logsumexp, qkv);
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
  run_body(expect, attention_backward_cost(dqkv, dout, out, logsumexp, qkv),
           cpu::attention_backward, cuda::attention_backward, stream, dqkv, row_dot, dout, out,
           logsumexp, qkv);
}

}  // namespace ladder
