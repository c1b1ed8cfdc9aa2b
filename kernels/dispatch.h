// Moves tokens to experts and back. R rows (tokens) of C elements each go to k experts. A copy of a
// row on its way to one expert is a slot; there are n of them. If an expert is full, a choice has
// no slot, and the token is dropped there: n <= R k.
//   slots (R, k) int32: the slot of each choice of each row, or -1 if it is dropped
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// out[i] = in[index[i]]. With the row of each slot as index it makes the slots (dispatch).
//   out (n, C) out; in (R, C) in; index (n) int32 in, each in [0, R)
void gather_rows(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView index);

// out[r] = sum over j of in[slots[r, j]], in the order of j. It is the backward of dispatch.
//   out (R, C) out; in (n, C), slots (R, k) in
void sum_slots(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView slots);

// out[r] = residual[r] + sum over j of weights[r, j] in[slots[r, j]], in the order of j.
//   out (R, C) out; residual (R, C), in (n, C), slots (R, k) in
//   weights (R, k) in, in the accumulation dtype
void combine_forward(Stream& stream, TensorView out, ConstTensorView residual, ConstTensorView in,
                     ConstTensorView slots, ConstTensorView weights);

// The gradients of combine_forward with respect to `in` and weights. With s = slots[r, j]:
//   din[s] = weights[r, j] dout[r];  dweights[r, j] = dot(dout[r], in[s]), or 0 if it is dropped
//   din (n, C) out; dweights (R, k) out, in the accumulation dtype
//   dout (R, C), in (n, C), slots (R, k) in; weights (R, k) in, in the accumulation dtype
// REQUIRES: each of the n slots is the slot of one choice.
void combine_backward(Stream& stream, TensorView din, TensorView dweights, ConstTensorView dout,
                      ConstTensorView in, ConstTensorView slots, ConstTensorView weights);

// What each kernel computes and moves (Cost in kernel.h), if nothing is dropped.
inline Cost gather_rows_cost(ConstTensorView out, ConstTensorView index) {
  return moving_cost(0, {out, index}, {out});
}
inline Cost sum_slots_cost(ConstTensorView out, ConstTensorView in, ConstTensorView slots) {
  return moving_cost(number_of(in.num_elements()), {in, slots}, {out});
}
inline Cost combine_forward_cost(ConstTensorView out, ConstTensorView in, ConstTensorView slots,
                                 ConstTensorView weights) {
  return moving_cost(2 * number_of(in.num_elements()) + number_of(out.num_elements()),
                     {out, in, slots, weights}, {out});
}
inline Cost combine_backward_cost(ConstTensorView din, ConstTensorView dout, ConstTensorView slots,
                                  ConstTensorView weights) {
  return moving_cost(3 * number_of(din.num_elements()), {dout, din, slots, weights},
                     {din, weights});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::gather_rows) gather_rows;
decltype(ladder::sum_slots) sum_slots;
decltype(ladder::combine_forward) combine_forward;
decltype(ladder::combine_backward) combine_backward;
}  // namespace cpu

namespace cuda {
decltype(ladder::gather_rows) gather_rows;
decltype(ladder::sum_slots) sum_slots;
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

inline void sum_slots(Stream& stream, TensorView out, ConstTensorView in, ConstTensorView slots) {
  const ArgumentCheck expect("sum_slots", stream, "out", out, 2);
  expect("in", in, {extent_of(in, 0), out.shape()[1]});
  expect("slots", slots, DType::int32, {out.shape()[0], extent_of(slots, 1)});
  run_body(expect, sum_slots_cost(out, in, slots), cpu::sum_slots, cuda::sum_slots, stream, out, in,
           slots);
}

inline void combine_forward(Stream& stream, TensorView out, ConstTensorView residual,
                            ConstTensorView in, ConstTensorView slots, ConstTensorView weights) {
  const ArgumentCheck expect("combine_forward", stream, "out", out, 2);
  const Shape choices = {out.shape()[0], extent_of(slots, 1)};
  expect("residual", residual, out.shape());
  expect("in", in, {extent_of(in, 0), out.shape()[1]});
  expect("slots", slots, DType::int32, choices);
  expect.accumulated("weights", weights, choices);
  run_body(expect, combine_forward_cost(out, in, slots, weights), cpu::combine_forward,
           cuda::combine_forward, stream, out, residual, in, slots, weights);
}

inline void combine_backward(Stream& stream, TensorView din, TensorView dweights,
                             ConstTensorView dout, ConstTensorView in, ConstTensorView slots,
                             ConstTensorView weights) {
  const ArgumentCheck expect("combine_backward", stream, "dout", dout, 2);
  const Shape choices = {dout.shape()[0], extent_of(slots, 1)};
  expect("in", in, {extent_of(in, 0), dout.shape()[1]});
  expect("din", din, in.shape());
  expect("slots", slots, DType::int32, choices);
  expect.accumulated("weights", weights, choices);
  expect.accumulated("dweights", dweights, choices);
  run_body(expect, combine_backward_cost(din, dout, slots, weights), cpu::combine_backward,
           cuda::combine_backward, stream, din, dweights, dout, in, slots, weights);
}

}  // namespace ladder
