// The embeddings of tokens and of positions, for B sequences of T tokens and hidden size C.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out[b, t, :] = table[tokens[b, t] - first, :], or zeros if tokens[b, t] is outside
// [first, first + rows of the table), because another rank has that row.
//   out (B, T, C) out; tokens (B, T) int32 in; table (rows, C) in
//   table has a row for each token of the vocabulary, or a slice of these rows that begins with the
//   row of token `first`
// The data is checked when it is read: there are no tokens beyond the vocabulary here.
void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                       ConstTensorView table, size_t first = 0);

// dtable[tokens[b, t] - first, :] += dout[b, t, :], if the table has that row. Every element adds
// in the order of (b, t), so the bits do not depend on the number of threads.
//   dtable (rows, C) in/out, in the accumulation dtype; tokens (B, T) int32, dout (B, T, C) in
void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                        ConstTensorView dout, size_t first = 0);

// out[b, t, :] = in[b, t, :] + table[p(t), :], where p(t) is t, or positions[t] if they are given:
// a rank may have only some tokens of each sequence. out may be in.
//   out (B, T, C) out; in (B, T, C), table (rows, C) in
//   positions (T) int32 in, or empty; all different, and rows of the table (they are not checked)
// Without positions the table has at least T rows.
void position_forward(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView table,
                      ConstTensorView positions = {});

// dtable[p(t), :] += sum over b, in order, of dout[b, t, :].
//   dtable (rows, C) in/out, in the accumulation dtype; dout (B, T, C), positions in
void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout,
                       ConstTensorView positions = {});

// What each kernel computes and moves (Cost in kernel.h).
// Only the rows that tokens name are read from the table: as many elements as `out` has.
inline Cost embedding_forward_cost(ConstTensorView out, ConstTensorView tokens) {
  return moving_cost(0, {out, tokens}, {out});
}
inline Cost embedding_backward_cost(ConstTensorView dtable, ConstTensorView tokens,
                                    ConstTensorView dout) {
  Cost cost = moving_cost(number_of(dout.num_elements()), {dout, tokens}, {});
  const double rows = number_of(dout.num_elements() * size_of(dtable.dtype()));
  cost.bytes_read += rows;
  cost.bytes_written += rows;
  return cost;
}
inline Cost position_forward_cost(ConstTensorView out, ConstTensorView table) {
  return moving_cost(number_of(out.num_elements()), {out, table}, {out});
}
inline Cost position_backward_cost(ConstTensorView dtable, ConstTensorView dout) {
  return moving_cost(number_of(dout.num_elements()), {dout, dtable}, {dtable});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::embedding_forward) embedding_forward;
decltype(ladder::embedding_backward) embedding_backward;
decltype(ladder::position_forward) position_forward;
decltype(ladder::position_backward) position_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::embedding_forward) embedding_forward;
decltype(ladder::embedding_backward) embedding_backward;
decltype(ladder::position_forward) position_forward;
decltype(ladder::position_backward) position_backward;
}  // namespace cuda

// Returns the shape that a table must have: its own rows, and the columns of `out`.
inline Shape table_shape(const ConstTensorView& table, const ConstTensorView& out) {
  return {table.shape().num_dims() > 0 ? table.shape()[0] : 0, out.shape()[2]};
}

inline void check_positions(const ArgumentCheck& expect, const char* kernel, const char* argument,
                            const ConstTensorView& table, const ConstTensorView& out,
                            const ConstTensorView& positions) {
  if (!positions.empty()) return expect("positions", positions, DType::int32, {out.shape()[1]});
  if (table.shape()[0] < out.shape()[1]) {
    fail(concat(kernel, ": argument `", argument, "` has ", table.shape()[0],
                " positions, the sequence ", out.shape()[1]));
  }
}

inline void embedding_forward(Stream& stream, TensorView out, ConstTensorView tokens,
                              ConstTensorView table, size_t first) {
  const ArgumentCheck expect("embedding_forward", stream, "out", out, 3);
  expect("tokens", tokens, DType::int32, {out.shape()[0], out.shape()[1]});
  expect("table", table, table_shape(table, out));
  run_body(expect, embedding_forward_cost(out, tokens), cpu::embedding_forward,
           cuda::embedding_forward, stream, out, tokens, table, first);
}

inline void embedding_backward(Stream& stream, TensorView dtable, ConstTensorView tokens,
                               ConstTensorView dout, size_t first) {
  const ArgumentCheck expect("embedding_backward", stream, "dout", dout, 3);
  expect.accumulated("dtable", dtable, table_shape(dtable, dout));
  expect("tokens", tokens, DType::int32, {dout.shape()[0], dout.shape()[1]});
  run_body(expect, embedding_backward_cost(dtable, tokens, dout), cpu::embedding_backward,
           cuda::embedding_backward, stream, dtable, tokens, dout, first);
}

inline void position_forward(Stream& stream, TensorView out, ConstTensorView in,
                             ConstTensorView table, ConstTensorView positions) {
  const ArgumentCheck expect("position_forward", stream, "out", out, 3);
  expect("in", in, out.shape());
  expect("table", table, table_shape(table, out));
  check_positions(expect, "position_forward", "table", table, out, positions);
  run_body(expect, position_forward_cost(out, table), cpu::position_forward, cuda::position_forward,
           stream, out, in, table, positions);
}

inline void position_backward(Stream& stream, TensorView dtable, ConstTensorView dout,
                              ConstTensorView positions) {
  const ArgumentCheck expect("position_backward", stream, "dout", dout, 3);
  expect.accumulated("dtable", dtable, table_shape(dtable, dout));
  check_positions(expect, "position_backward", "dtable", dtable, dout, positions);
  run_body(expect, position_backward_cost(dtable, dout), cpu::position_backward,
           cuda::position_backward, stream, dtable, dout, positions);
}

}  // namespace ladder
