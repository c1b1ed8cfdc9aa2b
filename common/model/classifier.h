// The classifier: logits over the vocabulary from the tied token embedding, and the loss. Logits
// exist for one row block at a time, never for a whole micro-batch. Letters: kernels/matmul.h.
#pragma once

#include "common/model/tensor_parallel.h"

namespace ladder {

// Rows of a row block.
inline constexpr size_t kClassifierRows = 256;

struct ClassifierWorkspace {
  TensorView logits;      // (row block, V) of the accumulation dtype
  TensorView dlogits;     // (row block, V) of the compute dtype; may be the logits where the two
                          // dtypes are one
  TensorView statistics;  // (3 row block) of the accumulation dtype: maximum, sum of exponentials,
                          // target's logit
};

// For each block of rows: logits = x wte^T, then losses, dx, and dwte +=, at once.
//   losses (R) out, in nats; dx (R, C) out; dwte (V, C) in/out
//   x (R, C), wte (V, C), targets (R) int32 in
//   dx and dwte are gradients of loss_scale * sum(losses)
// Where ranks hold a slice of the vocabulary each, wte and dwte are this rank's rows of the table,
// and first_token is the first of them. Each block of rows takes the maximum of all ranks, then the
// sum of exponentials and targets' logits: three statistics a row. dx is summed over the ranks
// once. Asynchronous on the stream.
void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace,
                                 const TensorParallel& tensor, size_t first_token);

// The losses alone, for evaluation.
void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace,
                        const TensorParallel& tensor, size_t first_token);

}  // namespace ladder
