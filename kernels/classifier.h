// Softmax cross-entropy on one block of rows of logits, in three steps so that ranks which hold a
// part of the vocabulary each can reduce between them. Letters and rules: kernels/matmul.h.
//
//   1. softmax_maximum        maximum[r] = max over v of logits[r, v]
//      (tensor parallel: all_reduce maximum with MAX)
//   2. softmax_exponentials   logits[r, v] -> exp(logits[r, v] - maximum[r]), sum[r], target[r]
//      (tensor parallel: all_reduce sum and target with SUM)
//   3. cross_entropy          losses[r]; exponentials -> gradient of the loss times loss_scale
//
// Logits of a model in bf16 or fp16 are fp32 (matmul gives them so), and so is all that is computed
// of them; only the gradient is rounded. So x is fp32 or fp64 here.
#pragma once

#include "kernels/runtime/stream.h"

namespace ladder {

// maximum (R) = the largest of each row of logits (R, V).
void softmax_maximum(Stream& stream, TensorView maximum, ConstTensorView logits);

// In place: logits (R, V) become exp(logits - maximum). sum (R) = the sum of each row of these.
// target_logit (R) = logits[r, targets[r] - first] - maximum[r] as it was before, or 0 where
// targets[r] is outside [first, first + V): another rank holds it.
//   targets (R) int32; first: the vocabulary index of column 0
void softmax_exponentials(Stream& stream, TensorView logits, TensorView sum,
                          TensorView target_logit, ConstTensorView targets, ConstTensorView maximum,
                          size_t first);

// losses (R) = log(sum) - target_logit, in nats.
// dlogits (R, V) = loss_scale * (exponentials / sum - [v == targets[r] - first]): the gradient of
// loss_scale * sum of losses with respect to the logits. It may be the exponentials, or, where
// these are fp32, be bf16 or fp16.
void cross_entropy(Stream& stream, TensorView losses, TensorView dlogits,
                   ConstTensorView exponentials, ConstTensorView sum, ConstTensorView target_logit,
                   ConstTensorView targets, size_t first, double loss_scale);

// losses (R) = log(sum) - target_logit: step 3 where no gradient is wanted.
void cross_entropy_loss(Stream& stream, TensorView losses, ConstTensorView sum,
                        ConstTensorView target_logit);

}  // namespace ladder
