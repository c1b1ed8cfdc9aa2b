// The classifier: logits over the vocabulary from the tied token embedding, and the loss. Logits
// exist for one block of rows only. Letters: kernels/matmul.h.
#pragma once

#include "common/model/tensor_parallel.h"

namespace ladder {

// Rows whose logits exist at a time.
inline constexpr size_t kClassifierRows = 256;

struct ClassifierWorkspace {
  TensorView logits;   // (block rows, V) a
  TensorView dlogits;  // (block rows, V) x; may be the logits where x is a
  TensorView numbers;  // (3 block rows) a: maximum, sum of exponentials, target's logit
};

// Where ranks hold a slice of the vocabulary each: what sums over them, and the first token of this
// rank's slice, whose rows are all that wte and dwte hold. Each block of rows takes the maximum of
// all ranks, then the sum of sums and targets' logits: 3 numbers a row. dx is summed once.
struct Vocabulary {
  TensorParallel tensor = {};
  size_t first_token = 0;
};

// For each block of rows: logits = x wte^T, then losses, dx, and dwte +=, at once.
//   losses (R) out, in nats; dx (R, C) out; dwte (V, C) in/out
//   x (R, C), wte (V, C), targets (R) int32 in
//   dx and dwte are gradients of loss_scale * sum(losses)
// Asynchronous on the stream.
void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace,
                                 const Vocabulary& vocabulary = {});

// The losses alone, for evaluation.
void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace,
                        const Vocabulary& vocabulary = {});

}  // namespace ladder
