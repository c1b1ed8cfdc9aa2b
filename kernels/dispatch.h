// Moves tokens to experts and back. R rows (tokens) of C elements each go to k experts. A copy of a
// row on its way to one expert is an assignment; there are n of them. If an expert is full, a
// choice has no assignment, and the token is dropped there: n <= R k.
//   assignments (R, k) int32: the assignment of each choice of each row, or -1 if it is dropped
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out[i] = in[index[i]]. With the row of each assignment as index it makes the assignments
// (dispatch).
//   out (n, C) out; in (R, C) in; index (n) int32 in, each in [0, R)
void gather_rows(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView index);

// out[r] = sum over j of in[assignments[r, j]], in the order of j. It is the backward of dispatch.
//   out (R, C) out; in (n, C), assignments (R, k) in
void sum_assignments(Stream& stream, TensorView out, ConstTensorView in,
                     ConstTensorView assignments);

// out[r] = residual[r] + sum over j of weights[r, j] in[assignments[r, j]], in the order of j.
//   out (R, C) out; residual (R, C), in (n, C), assignments (R, k) in
//   weights (R, k) in, in the accumulation dtype
void combine_forward(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView in,
                     ConstTensorView assignments, ConstTensorView weights);

// The gradients of combine_forward with respect to `in` and weights. With s = assignments[r, j]:
//   din[s] = weights[r, j] dout[r];  dweights[r, j] = dot(dout[r], in[s]), or 0 if it is dropped
//   din (n, C) out; dweights (R, k) out, in the accumulation dtype
//   dout (R, C), in (n, C), assignments (R, k) in; weights (R, k) in, in the accumulation dtype
// REQUIRES: each of the n assignments is the assignment of one choice.
void combine_backward(Stream& stream, TensorView din, TensorView dweights, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView assignments, ConstTensorView weights);

// What each kernel computes and moves (Cost in kernel.h), if nothing is dropped.
inline Cost gather_rows_cost(ConstTensorView out, ConstTensorView index) {
  return moving_cost(0, {out, index}, {out});
}
inline Cost sum_assignments_cost(ConstTensorView out, ConstTensorView in,
                                 ConstTensorView assignments) {
  return moving_cost(number_of(in.num_elements()), {in, assignments}, {out});
}
inline Cost combine_forward_cost(ConstTensorView out, ConstTensorView in,
                                 ConstTensorView assignments, ConstTensorView weights) {
  return moving_cost(2 * number_of(in.num_elements()) + number_of(out.num_elements()),
                     {out, in, assignments, weights}, {out});
}
inline Cost combine_backward_cost(ConstTensorView din, ConstTensorView dout,
                                  ConstTensorView assignments, ConstTensorView weights) {
  return moving_cost(3 * number_of(din.num_elements()), {dout, din, assignments, weights},
                     {din, weights});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::gather_rows) gather_rows;
decltype(ladder::sum_assignments) sum_assignments;
decltype(ladder::combine_forward) combine_forward;
decltype(ladder::combine_backward) combine_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::gather_rows) gather_rows;
decltype(ladder::sum_assignments) sum_assignments;
decltype(ladder::combine_forward) combine_forward;
decltype(ladder::combine_backward) combine_backward;
}  // namespace cuda

// Returns the extent of a view that should be a matrix, or 0 if it is none; its check then fails.
inline size_t extent_of(ConstTensorView view, size_t dim) {
  return view.shape().num_dims() == 2 ? view.shape()[dim] : 0;
}

inline void gather_rows(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView index) {
  const ArgumentCheck expect("gather_rows", stream, "out", out, 2);
  expect("in", in, {extent_of(in, 0), out.shape()[1]});
  expect("index", index, DType::int32, {out.shape()[0]});
  run_body(expect, gather_rows_cost(out, index), cpu::gather_rows, cuda::gather_rows, stream, out,
           in, index);
}

inline void sum_assignments(Stream& stream, TensorView out, ConstTensorView in,
                            ConstTensorView assignments) {
  const ArgumentCheck expect("sum_assignments", stream, "out", out, 2);
  expect("in", in, {extent_of(in, 0), out.shape()[1]});
  expect("assignments", assignments, DType::int32, {out.shape()[0], extent_of(assignments, 1)});
  run_body(expect, sum_assignments_cost(out, in, assignments), cpu::sum_assignments,
           cuda::sum_assignments, stream, out, in, assignments);
}

inline void combine_forward(Stream& stream, TensorView out, ConstTensorView residual,
                            ConstTensorView in, ConstTensorView assignments,
                            ConstTensorView weights) {
  const ArgumentCheck expect("combine_forward", stream, "out", out, 2);
  const Shape choices = {out.shape()[0], extent_of(assignments, 1)};
  expect("residual", residual, out.shape());
  expect("in", in, {extent_of(in, 0), out.shape()[1]});
  expect("assignments", assignments, DType::int32, choices);
  expect.accumulated("weights", weights, choices);
  run_body(expect, combine_forward_cost(out, in, assignments, weights), cpu::combine_forward,
           cuda::combine_forward, stream, out, residual, in, assignments, weights);
}

inline void combine_backward(Stream& stream, TensorView din, TensorView dweights,
                             ConstTensorView dout, ConstTensorView in, ConstTensorView assignments,
                             ConstTensorView weights) {
  const ArgumentCheck expect("combine_backward", stream, "dout", dout, 2);
  const Shape choices = {dout.shape()[0], extent_of(assignments, 1)};
  expect("in", in, {extent_of(in, 0), dout.shape()[1]});
  expect("din", din, in.shape());
  expect("assignments", assignments, DType::int32, choices);
  expect.accumulated("weights", weights, choices);
  expect.accumulated("dweights", dweights, choices);
  run_body(expect, combine_backward_cost(din, dout, assignments, weights), cpu::combine_backward,
           cuda::combine_backward, stream, din, dweights, dout, in, assignments, weights);
}

}  // namespace ladder
