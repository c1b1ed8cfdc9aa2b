// Attention of some queries against some keys, for ranks that have different tokens of a sequence.
// Read attention.h first. They are a tile of scores, a rectangle of the matrix. attention_merge.h
// joins the results of several.
//
// Letters: a rank's queries are Tq tokens of each of B sequences, the keys of a tile Tk tokens.
// Outputs and gradients have the accumulation dtype, because they become sums over several tiles.
#pragma once

#include "kernels/attention.h"

namespace ladder {

// Queries [first_query, first_query + num_queries) of each sequence against its first num_keys
// keys. Each of these queries sees all of these keys. With `causal` query first_query + i sees keys
// 0 to i only, and there are as many keys as queries.
struct ScoreTile {
  size_t first_query = 0, num_queries = 0, num_keys = 0;
  bool causal = false;

  // Returns the number of pairs of a query and a key that it sees, in one sequence and head.
  size_t num_pairs() const {
    return causal ? num_queries * (num_queries + 1) / 2 : num_queries * num_keys;
  }
};

// Sets out and logsumexp of the tile's queries, as if there were no other keys; those of other
// queries keep their values.
//   out (B, Tq, C), logsumexp (B, NH, Tq) out, in the accumulation dtype
//   qkv (B, Tq, C + 2 K) in: only q is read; kv (B, Tk, 2 K) in: for each token k, then v
// The middle extent of logsumexp says what NH is. REQUIRES: of C, K, NH and NKV what attention.h
// requires; the tile has queries and keys.
void attention_of_tile_forward(Stream& stream, TensorView out, TensorView logsumexp,
                               ConstTensorView qkv, ConstTensorView kv, ScoreTile tile);

// Adds what the tile contributes to the gradients of q, k and v. `logsumexp` and row_dot are those
// over all keys that the queries see, in this tile and in others. The query heads that share keys
// and values add to their gradients in the order of attention.h.
//   dq (B, Tq, C), dkv (B, Tk, 2 K) in/out, in the accumulation dtype
//   row_dot, logsumexp (B, NH, Tq) in, in the accumulation dtype
//   dout (B, Tq, C), qkv (B, Tq, C + 2 K), kv (B, Tk, 2 K) in
void attention_of_tile_backward(Stream& stream, TensorView dq, TensorView dkv,
                                ConstTensorView row_dot, ConstTensorView dout,
                                ConstTensorView logsumexp, ConstTensorView qkv, ConstTensorView kv,
                                ScoreTile tile);

// What each kernel computes and moves (Cost in kernel.h): two products over the scores in forward,
// five in backward, and the exponentials. Bytes are those of all arguments, also of tokens that the
// tile does not touch.
inline Cost attention_of_tile_cost(Cost moved, ConstTensorView out, ConstTensorView logsumexp,
                                   ScoreTile tile, double products) {
  const double pairs = number_of(tile.num_pairs() * out.shape()[0]);
  moved.other_flops = pairs * number_of(logsumexp.shape()[1]);
  moved.product_flops = products * 2 * pairs * number_of(out.shape()[2]);
  return moved;
}
inline Cost attention_of_tile_forward_cost(ConstTensorView out, ConstTensorView logsumexp,
                                           ConstTensorView qkv, ConstTensorView kv,
                                           ScoreTile tile) {
  return attention_of_tile_cost(moving_cost(0, {qkv, kv}, {out, logsumexp}), out, logsumexp, tile,
                                2);
}
inline Cost attention_of_tile_backward_cost(ConstTensorView dq, ConstTensorView dkv,
                                            ConstTensorView row_dot, ConstTensorView dout,
                                            ConstTensorView logsumexp, ConstTensorView qkv,
                                            ConstTensorView kv, ScoreTile tile) {
  return attention_of_tile_cost(
      moving_cost(0, {dq, dkv, row_dot, dout, logsumexp, qkv, kv}, {dq, dkv}), dq, logsumexp, tile,
      5);
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::attention_of_tile_forward) attention_of_tile_forward;
decltype(ladder::attention_of_tile_backward) attention_of_tile_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::attention_of_tile_forward) attention_of_tile_forward;
decltype(ladder::attention_of_tile_backward) attention_of_tile_backward;
}  // namespace cuda

// Checks qkv and kv, and that the tile lies within the queries and keys. `out` is the shape
// (B, Tq, C), `rows` what attention_rows() returned.
inline void check_attention_of_tile(const ArgumentCheck& expect, const Shape& out,
                                    const Shape& rows, const ConstTensorView& qkv,
                                    const ConstTensorView& kv, const ScoreTile& tile) {
  check_qkv(expect, qkv, out, rows);
  const size_t queries = out[1], keys = kv.shape().num_dims() == 3 ? kv.shape()[1] : 0;
  expect("kv", kv, {out[0], keys, qkv.shape()[2] - out[2]});
  const auto& [first, count, num_keys, causal] = tile;
  const bool fits = first <= queries && count <= queries - first && num_keys <= keys;
  if (fits && count > 0 && num_keys > 0 && (!causal || num_keys == count)) return;
  fail(concat(expect.kernel(), ": argument `tile` has ", count, " queries from ", first, " on and ",
              num_keys, causal ? " keys with a causal mask" : " keys", ", of ", queries,
              " queries and ", keys, " keys"));
}

inline void attention_of_tile_forward(Stream& stream, TensorView out, TensorView logsumexp,
                                      ConstTensorView qkv, ConstTensorView kv, ScoreTile tile) {
  const char* const kernel = "attention_of_tile_forward";
  const ArgumentCheck expect(kernel, stream, "qkv", qkv, 3);
  const size_t columns = out.shape().num_dims() == 3 ? out.shape()[2] : 0;
  const Shape shape = {qkv.shape()[0], qkv.shape()[1], columns};
  expect.accumulated("out", out, shape);
  const Shape rows = attention_rows(kernel, shape, logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  check_attention_of_tile(expect, shape, rows, qkv, kv, tile);
  run_body(expect, attention_of_tile_forward_cost(out, logsumexp, qkv, kv, tile),
           cpu::attention_of_tile_forward, cuda::attention_of_tile_forward, stream, out, logsumexp,
           qkv, kv, tile);
}

inline void attention_of_tile_backward(Stream& stream, TensorView dq, TensorView dkv,
                                       ConstTensorView row_dot, ConstTensorView dout,
                                       ConstTensorView logsumexp, ConstTensorView qkv,
                                       ConstTensorView kv, ScoreTile tile) {
  const char* const kernel = "attention_of_tile_backward";
  const ArgumentCheck expect(kernel, stream, "dout", dout, 3);
  const Shape& shape = dout.shape();
  const Shape rows = attention_rows(kernel, shape, logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  check_attention_of_tile(expect, shape, rows, qkv, kv, tile);
  expect.accumulated("dq", dq, shape);
  expect.accumulated("dkv", dkv, kv.shape());
  run_body(expect,
           attention_of_tile_backward_cost(dq, dkv, row_dot, dout, logsumexp, qkv, kv, tile),
           cpu::attention_of_tile_backward, cuda::attention_of_tile_backward, stream, dq, dkv,
           row_dot, dout, logsumexp, qkv, kv, tile);
}

}  // namespace ladder
