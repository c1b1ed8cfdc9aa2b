// Multi-head attention without a T x T matrix in memory. Read cpu/plain_attention.h first:
// it is the same computation as plain loops.
//
// Letters: B sequences have T tokens. A token's queries have C elements, which are NH heads of HS
// elements (C may differ from the model's hidden size); its keys have K, which are NKV heads of HS,
// and so have its values. NKV divides NH, and NH / NKV query heads, a group, share a key head and a
// value head: query head h has those of number h / (NH / NKV). NKV = NH is multi-head attention,
// NKV = 1 multi-query attention [Shazeer19], and anything between grouped-query attention
// [Ainslie23].
#pragma once

#include "kernels/attention_mask.h"
#include "kernels/kernel.h"

namespace ladder {

// out = softmax(q k^T / sqrt(HS) + mask) v, for each sequence and head. [Vaswani17, 3.2.1]
// It goes through the keys tile by tile, with a running maximum and sum (online softmax [Milakov18,
// Dao22]).
//   qkv (B, T, C + 2 K) in: for each token all of q, then k, then v; of each of these, head h has
//   columns [h HS, (h+1) HS)
//   out (B, T, C) out
//   logsumexp (B, NH, T) out, in the accumulation dtype: for each query the log of the sum of the
//   exponentials of its scores; saved for backward
// On a GPU's tensor cores (bf16 and fp16, kernels/cuda/README.md) the exponentials are rounded to
// the compute dtype before they meet v. In backward so are the gradients of the scores before they
// meet q and k.
// The middle extent of logsumexp says what NH is; the columns of qkv say what K is. REQUIRES:
// T >= 1, NH divides C, HS divides K, NKV divides NH.
void attention_forward(Stream& stream, TensorView out, TensorView logsumexp, ConstTensorView qkv,
                       AttentionMask mask);

// dqkv (B, T, C + 2 K) = the gradient with respect to qkv; it is overwritten. Probabilities are
// computed again from q, k and logsumexp, tile by tile. [Dao22, algorithm 4] The gradient of a key
// or value is summed over the query heads of its group, from the first to the last, and for each
// over the queries, from the first to the last. `mask` is that of forward.
//   dout, out (B, T, C), logsumexp (B, NH, T), qkv (B, T, C + 2 K) in
//   row_dot (B, NH, T) workspace, in the accumulation dtype: receives for each query the sum over
//   the head of dout * out
void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot, ConstTensorView dout,
                        ConstTensorView out, ConstTensorView logsumexp, ConstTensorView qkv,
                        AttentionMask mask);

// What each kernel computes and moves (Cost in kernel.h). There are T^2 / 2 scores in each head
// with a causal mask, T^2 without one. Forward has two products over the scores, backward five. The
// exponentials are the only other operations that count.
inline Cost attention_forward_cost(ConstTensorView out, ConstTensorView logsumexp,
                                   ConstTensorView qkv, AttentionMask mask) {
  const double seen = keys_seen(mask, out.shape()[1]);
  Cost cost = moving_cost(number_of(logsumexp.num_elements()) * seen, {qkv}, {out, logsumexp});
  cost.product_flops = 2 * 2 * number_of(out.num_elements()) * seen;
  return cost;
}
inline Cost attention_backward_cost(ConstTensorView dqkv, ConstTensorView dout, ConstTensorView out,
                                    ConstTensorView logsumexp, ConstTensorView qkv,
                                    AttentionMask mask) {
  const double seen = keys_seen(mask, out.shape()[1]);
  Cost cost =
      moving_cost(number_of(logsumexp.num_elements()) * seen, {dout, out, logsumexp, qkv}, {dqkv});
  cost.product_flops = 5 * 2 * number_of(out.num_elements()) * seen;
  return cost;
}

// The heads of a call whose arguments have been checked.
struct AttentionHeads {
  size_t num_heads, num_kv_heads, size;  // NH, NKV, HS

  size_t group() const { return num_heads / num_kv_heads; }   // query heads of a key head
  size_t query_columns() const { return num_heads * size; }   // C
  size_t key_columns() const { return num_kv_heads * size; }  // K
  size_t qkv_columns() const { return query_columns() + 2 * key_columns(); }
  // Returns where in a tensor (B, tokens, C) the vectors of query head bh = b NH + h begin.
  size_t at(size_t bh, size_t tokens) const {
    return bh / num_heads * tokens * query_columns() + bh % num_heads * size;
  }
};

// Returns the heads, given C and the columns of keys and values together: 2 K.
inline AttentionHeads attention_heads(const ConstTensorView& logsumexp, size_t query_columns,
                                      size_t kv_columns) {
  const size_t num_heads = logsumexp.shape()[1], size = query_columns / num_heads;
  return {num_heads, kv_columns / 2 / size, size};
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
                " heads do not divide ", out[2], " columns"));
  }
  return {out[0], num_heads, out[1]};
}

// Checks qkv against an `out` of (B, T, C). `rows` is what attention_rows() returned.
inline void check_qkv(const ArgumentCheck& expect, const ConstTensorView& qkv, const Shape& out,
                      const Shape& rows) {
  const Shape& shape = qkv.shape();
  const size_t columns = shape.num_dims() == 3 ? shape[2] : 3 * out[2];
  expect("qkv", qkv, {out[0], out[1], columns});
  const size_t size = out[2] / rows[1];
  const size_t num_kv_heads = columns > out[2] ? (columns - out[2]) / 2 / size : 0;
  const bool whole = out[2] + 2 * num_kv_heads * size == columns;
  if (num_kv_heads > 0 && whole && rows[1] % num_kv_heads == 0) return;
  fail(concat(expect.kernel(), ": argument `qkv` has shape ", to_string(shape),
              ", expected after the ", out[2], " columns of ", rows[1], " query heads ", size,
              " for each key head, and again for each value head, whose number divides ", rows[1]));
}

inline void attention_forward(Stream& stream, TensorView out, TensorView logsumexp,
                              ConstTensorView qkv, AttentionMask mask) {
  const ArgumentCheck expect("attention_forward", stream, "out", out, 3);
  const Shape rows = attention_rows("attention_forward", out.shape(), logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  check_qkv(expect, qkv, out.shape(), rows);
  run_body(expect, attention_forward_cost(out, logsumexp, qkv, mask), cpu::attention_forward,
           cuda::attention_forward, stream, out, logsumexp, qkv, mask);
}

inline void attention_backward(Stream& stream, TensorView dqkv, TensorView row_dot,
                               ConstTensorView dout, ConstTensorView out, ConstTensorView logsumexp,
                               ConstTensorView qkv, AttentionMask mask) {
  const ArgumentCheck expect("attention_backward", stream, "out", out, 3);
  const Shape& shape = out.shape();
  const Shape rows = attention_rows("attention_backward", shape, logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  expect("dout", dout, shape);
  check_qkv(expect, qkv, shape, rows);
  expect("dqkv", dqkv, qkv.shape());
  run_body(expect, attention_backward_cost(dqkv, dout, out, logsumexp, qkv, mask),
           cpu::attention_backward, cuda::attention_backward, stream, dqkv, row_dot, dout, out,
           logsumexp, qkv, mask);
}

}  // namespace ladder
