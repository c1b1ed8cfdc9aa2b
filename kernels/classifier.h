// Softmax cross-entropy on R rows of logits. Read cpu/plain_classifier.h first. It has three steps,
// between which ranks with slices of the vocabulary can reduce. V is the size of this rank's slice.
//   1. softmax_maximum        maximum[r] = max over v of logits[r, v]
//   2. softmax_exponentials   logits[r, v] -> exp(logits[r, v] - maximum[r]), sum[r], target[r]
//   3. cross_entropy          losses[r]; exponentials -> gradient of the loss times loss_scale
// Tensor-parallel ranks all_reduce the maximum with MAX after 1, sum and target with SUM after 2.
// Where one rank has the whole vocabulary, softmax_cross_entropy does all three at once.
// All are fp32 or fp64; in a model in bf16 or fp16 matmul gives logits in fp32, and only the
// gradient is rounded. Rows of logits, exponentials and dlogits may lie apart.
#pragma once

#include "kernels/kernel.h"

namespace ladder {

// maximum (R) = the largest element of each row of logits (R, V).
void softmax_maximum(Stream& stream, TensorView maximum, ConstTensorView logits);

// Overwrites logits (R, V) with exp(logits - maximum).
//   sum (R) out: the sum of each row; targets (R) int32 in; `first` is the token of column 0
//   target_logit (R) out: the old logits[r, targets[r] - first] - maximum[r]; 0 if it is not here
// A target kIgnored makes all of its row 0, but the sum of the first slice 1: no loss, no gradient.
void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                          TensorView target_logit, ConstTensorView targets, ConstTensorView maximum,
                          size_t first);

// losses (R) = log(sum) - target_logit, in nats.
// dlogits (R, V) = loss_scale * (exponentials / sum - [v == targets[r] - first]), the gradient of
// loss_scale * sum of losses. It may be the exponentials' memory, and 16 bits if they are fp32.
void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale);

// losses (R) = log(sum) - target_logit. It is step 3 without the gradient.
void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit);

// The three steps for rows that hold the whole vocabulary. losses and dlogits are as in step 3.
//   logits (R, V) in, then undefined; may be dlogits, and of its dtype; statistics (3 R) workspace
void softmax_cross_entropy(Stream& stream, TensorView losses, TensorView dlogits, TensorView logits,
                           TensorView statistics, ConstTensorView targets, double loss_scale);

// What each kernel computes and moves (Cost in kernel.h).
inline Cost softmax_maximum_cost(ConstTensorView maximum, ConstTensorView logits) {
  return moving_cost(number_of(logits.num_elements()), {logits}, {maximum});
}
inline Cost softmax_exponentials_cost(ConstTensorView logits, ConstTensorView sum) {
  return moving_cost(3 * number_of(logits.num_elements()), {logits, sum, sum}, {logits, sum, sum});
}
inline Cost cross_entropy_cost(ConstTensorView losses, ConstTensorView dlogits,
                               ConstTensorView exponentials) {
  return moving_cost(2 * number_of(dlogits.num_elements()), {exponentials, losses, losses},
                     {dlogits, losses});
}
inline Cost cross_entropy_loss_cost(ConstTensorView losses) {
  return moving_cost(2 * number_of(losses.num_elements()), {losses, losses}, {losses});
}
inline Cost softmax_cross_entropy_cost(ConstTensorView losses, ConstTensorView dlogits,
                                       ConstTensorView logits) {
  return moving_cost(6 * number_of(logits.num_elements()), {logits, losses}, {dlogits, losses});
}

// The bodies for each device, and the entries, which check the arguments and call a body.
namespace cpu {
decltype(ladder::softmax_maximum) softmax_maximum;
decltype(ladder::softmax_exponentials) softmax_exponentials;
decltype(ladder::cross_entropy) cross_entropy;
decltype(ladder::cross_entropy_loss) cross_entropy_loss;
decltype(ladder::softmax_cross_entropy) softmax_cross_entropy;
}  // namespace cpu

namespace cuda {
decltype(ladder::softmax_maximum) softmax_maximum;
decltype(ladder::softmax_exponentials) softmax_exponentials;
decltype(ladder::cross_entropy) cross_entropy;
decltype(ladder::cross_entropy_loss) cross_entropy_loss;
decltype(ladder::softmax_cross_entropy) softmax_cross_entropy;
}  // namespace cuda

inline void softmax_maximum(Stream& stream, TensorView maximum, ConstTensorView logits) {
  const ArgumentCheck expect("softmax_maximum", stream, "logits", logits, 2,
                             ArgumentCheck::kAccumulation, Rows::apart);
  expect("maximum", maximum, {logits.shape()[0]});
  check(logits.shape()[1] > 0, "softmax_maximum: no columns");
  run_body(expect, softmax_maximum_cost(maximum, logits), cpu::softmax_maximum,
           cuda::softmax_maximum, stream, maximum, logits);
}

inline void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                                 TensorView target_logit, ConstTensorView targets,
                                 ConstTensorView maximum, size_t first) {
  const ArgumentCheck expect("softmax_exponentials", stream, "logits", logits, 2,
                             ArgumentCheck::kAccumulation, Rows::apart);
  const Shape rows = {logits.shape()[0]};
  expect("sum", sum, rows);
  expect("target_logit", target_logit, rows);
  expect("targets", targets, DType::int32, rows);
  expect("maximum", maximum, rows);
  run_body(expect, softmax_exponentials_cost(logits, sum), cpu::softmax_exponentials,
           cuda::softmax_exponentials, stream, logits, sum, target_logit, targets, maximum, first);
}

inline void check_gradient(const ArgumentCheck& expect, ConstTensorView out, ConstTensorView in) {
  if (in.dtype() != DType::fp32) return expect("dlogits", out, in.shape());
  expect("dlogits", out, {DType::fp32, DType::bf16, DType::fp16}, in.shape());
}

inline void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                          ConstTensorView exponentials, ConstTensorView sum,
                          ConstTensorView target_logit, ConstTensorView targets, size_t first,
                          double loss_scale) {
  const ArgumentCheck expect("cross_entropy", stream, "exponentials", exponentials, 2,
                             ArgumentCheck::kAccumulation, Rows::apart);
  const Shape rows = {exponentials.shape()[0]};
  expect("losses", losses, rows);
  check_gradient(expect, dlogits, exponentials);
  expect("sum", sum, rows);
  expect("target_logit", target_logit, rows);
  expect("targets", targets, DType::int32, rows);
  run_body(expect, cross_entropy_cost(losses, dlogits, exponentials), cpu::cross_entropy,
           cuda::cross_entropy, stream, losses, dlogits, exponentials, sum, target_logit, targets,
           first, loss_scale);
}

inline void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                               ConstTensorView target_logit) {
  const ArgumentCheck expect("cross_entropy_loss", stream, "losses", losses, 1,
                             ArgumentCheck::kAccumulation);
  expect("sum", sum, losses.shape());
  expect("target_logit", target_logit, losses.shape());
  run_body(expect, cross_entropy_loss_cost(losses), cpu::cross_entropy_loss,
           cuda::cross_entropy_loss, stream, losses, sum, target_logit);
}

inline void softmax_cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                                  TensorView logits, TensorView statistics, ConstTensorView targets,
                                  double loss_scale) {
  const ArgumentCheck expect("softmax_cross_entropy", stream, "logits", logits, 2,
                             ArgumentCheck::kFloats, Rows::apart);
  const size_t rows = logits.shape()[0];
  expect.accumulated("losses", losses, {rows});
  check_gradient(expect, dlogits, logits);
  expect.accumulated("statistics", statistics, {3 * rows});
  expect("targets", targets, DType::int32, {rows});
  run_body(expect, softmax_cross_entropy_cost(losses, dlogits, logits), cpu::softmax_cross_entropy,
           cuda::softmax_cross_entropy, stream, losses, dlogits, logits, statistics, targets,
           loss_scale);
}

}  // namespace ladder
