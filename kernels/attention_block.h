// Attention of some queries against some keys, for ranks that have different tokens of a sequence.
// Read attention.h first. They are an attention block, a rectangle of the matrix of scores (and no
// transformer block). attention_merge.h joins the results of several.
//
// Letters: a rank's queries are Tq tokens of each of B sequences, the keys of a block Tk tokens.
// Outputs and gradients have the accumulation dtype, because they become sums over several blocks.
#pragma once

#include "kernels/attention.h"

namespace ladder {

// Queries [first_query, first_query + num_queries) of each sequence against its first num_keys
// keys. Each of these queries sees all of these keys. With `causal` query first_query + i sees keys
// 0 to i only, and there are as many keys as queries.
struct AttentionBlock {
  size_t first_query = 0, num_queries = 0, num_keys = 0;
  bool causal = false;

  // Returns the number of pairs of a query and a key that it sees, in one sequence and head.
  size_t num_pairs() const {
    return causal ? num_queries * (num_queries + 1) / 2 : num_queries * num_keys;
  }
};

// Sets out and logsumexp of the block's queries, as if there were no other keys; those of other
// queries keep their values.
//   out (B, Tq, C), logsumexp (B, NH, Tq) out, in the accumulation dtype
//   qkv (B, Tq, 3 C) in: only q is read; kv (B, Tk, 2 C) in: for each token k, then v
// The middle extent of logsumexp says what NH is. REQUIRES: NH divides C; the block has queries and
// keys.
void attention_block_forward(Stream& stream, TensorView out, TensorView logsumexp,
                             ConstTensorView qkv, ConstTensorView kv, AttentionBlock block);

// Adds what the block contributes to the gradients of q, k and v. `logsumexp` and row_dot are those
// over all keys that the queries see, in this block and in others.
//   dq (B, Tq, C), dkv (B, Tk, 2 C) in/out, in the accumulation dtype
//   row_dot, logsumexp (B, NH, Tq) in, in the accumulation dtype
//   dout (B, Tq, C), qkv (B, Tq, 3 C), kv (B, Tk, 2 C) in
void attention_block_backward(Stream& stream, TensorView dq, TensorView dkv,
                              ConstTensorView row_dot, ConstTensorView dout,
                              ConstTensorView logsumexp, ConstTensorView qkv, ConstTensorView kv,
                              AttentionBlock block);

// What each kernel computes and moves (Cost in kernel.h): two products over the scores in forward,
// five in backward, and the exponentials. Bytes are those of all arguments, also of tokens that the
// block does not touch.
inline Cost attention_block_cost(Cost moved, ConstTensorView out, ConstTensorView logsumexp,
                                 AttentionBlock block, double products) {
  const double pairs = number_of(block.num_pairs() * out.shape()[0]);
  moved.other_flops = pairs * number_of(logsumexp.shape()[1]);
  moved.product_flops = products * 2 * pairs * number_of(out.shape()[2]);
  return moved;
}
inline Cost attention_block_forward_cost(ConstTensorView out, ConstTensorView logsumexp,
                                         ConstTensorView qkv, ConstTensorView kv,
                                         AttentionBlock block) {
  return attention_block_cost(moving_cost(0, {qkv, kv}, {out, logsumexp}), out, logsumexp, block,
                              2);
}
inline Cost attention_block_backward_cost(ConstTensorView dq, ConstTensorView dkv,
                                          ConstTensorView row_dot, ConstTensorView dout,
                                          ConstTensorView logsumexp, ConstTensorView qkv,
                                          ConstTensorView kv, AttentionBlock block) {
  return attention_block_cost(
      moving_cost(0, {dq, dkv, row_dot, dout, logsumexp, qkv, kv}, {dq, dkv}), dq, logsumexp, block,
      5);
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::attention_block_forward) attention_block_forward;
decltype(ladder::attention_block_backward) attention_block_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::attention_block_forward) attention_block_forward;
decltype(ladder::attention_block_backward) attention_block_backward;
}  // namespace cuda

// Checks kv, and that the block lies within the queries and keys. `out` is the shape (B, Tq, C).
inline void check_attention_block(const ArgumentCheck& expect, const char* kernel, const Shape& out,
                                  const ConstTensorView& kv, const AttentionBlock& block) {
  const size_t queries = out[1], keys = kv.shape().num_dims() == 3 ? kv.shape()[1] : 0;
  expect("kv", kv, {out[0], keys, 2 * out[2]});
  const auto& [first, count, num_keys, causal] = block;
  const bool fits = first <= queries && count <= queries - first && num_keys <= keys;
  if (fits && count > 0 && num_keys > 0 && (!causal || num_keys == count)) return;
  fail(concat(kernel, ": argument `block` has ", count, " queries from ", first, " on and ",
              num_keys, causal ? " keys with a causal mask" : " keys", ", of ", queries,
              " queries and ", keys, " keys"));
}

inline void attention_block_forward(Stream& stream, TensorView out, TensorView logsumexp,
                                    ConstTensorView qkv, ConstTensorView kv, AttentionBlock block) {
  const char* const kernel = "attention_block_forward";
  const ArgumentCheck expect(kernel, stream, "qkv", qkv, 3);
  const Shape shape = {qkv.shape()[0], qkv.shape()[1], qkv.shape()[2] / 3};
  expect("qkv", qkv, {shape[0], shape[1], 3 * shape[2]});
  expect.accumulated("out", out, shape);
  expect.accumulated("logsumexp", logsumexp, attention_rows(kernel, shape, logsumexp));
  check_attention_block(expect, kernel, shape, kv, block);
  run_body(expect, attention_block_forward_cost(out, logsumexp, qkv, kv, block),
           cpu::attention_block_forward, cuda::attention_block_forward, stream, out, logsumexp, qkv,
           kv, block);
}

inline void attention_block_backward(Stream& stream, TensorView dq, TensorView dkv,
                                     ConstTensorView row_dot, ConstTensorView dout,
                                     ConstTensorView logsumexp, ConstTensorView qkv,
                                     ConstTensorView kv, AttentionBlock block) {
  const char* const kernel = "attention_block_backward";
  const ArgumentCheck expect(kernel, stream, "dout", dout, 3);
  const Shape& shape = dout.shape();
  const Shape rows = attention_rows(kernel, shape, logsumexp);
  check_attention_block(expect, kernel, shape, kv, block);
  expect("qkv", qkv, {shape[0], shape[1], 3 * shape[2]});
  expect.accumulated("dq", dq, shape);
  expect.accumulated("dkv", dkv, kv.shape());
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  run_body(expect, attention_block_backward_cost(dq, dkv, row_dot, dout, logsumexp, qkv, kv, block),
           cpu::attention_block_backward, cuda::attention_block_backward, stream, dq, dkv, row_dot,
           dout, logsumexp, qkv, kv, block);
}

}  // namespace ladder
