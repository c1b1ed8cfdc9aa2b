// The classifier: it computes logits over the vocabulary from the tied token embedding, and the
// loss. Logits exist for one row tile (a few rows) at a time, never for a whole micro-batch.
// Letters: R rows (tokens) in the micro-batch, C hidden size, V vocabulary.
#pragma once

#include "common/model/tensor_parallel.h"

namespace ladder {

// Returns the most rows in a row tile. On a CPU it is so few that the work on their logits stays
// near the caches. On a GPU every tile adds its part to all of dwte, V C numbers in fp32 for
// GPT-2, so there are few tiles.
constexpr size_t classifier_rows(DeviceType device) {
  return device == DeviceType::cpu ? 256 : 4096;
}

// Memory for one row tile of K rows. If ranks hold slices of the vocabulary, V is this rank's
// part.
struct ClassifierWorkspace {
  // (K, V) in the accumulation dtype, or in the compute dtype if this rank has the whole
  // vocabulary; rows may lie apart here and in dlogits
  TensorView logits;
  TensorView
      dlogits;  // (K, V) in the compute dtype; may be `logits` if the two dtypes are the same
  // (3 K) in the accumulation dtype: for each row the maximum of the logits, the sum of their
  // exponentials, and the logit of the target.
  TensorView statistics;
};

// Computes, one row tile after the other: logits = x wte^T, the losses, dx, and dwte += its part.
//   losses (R) out, in nats; dx (R, C) out; dwte (V, C) in/out
//   x (R, C), wte (V, C), targets (R) int32 in
//   dx and dwte are gradients of loss_scale * sum(losses); one that is empty is not computed
// If tensor-parallel ranks hold slices of the vocabulary, wte and dwte are this rank's rows of the
// table, and first_token is the first of them. For each row tile the ranks then reduce the
// maximum, and after that the sum of exponentials and the targets' logits. dx is then this rank's
// term of the gradient, which is still to be summed (TensorParallel::enter_backward). Asynchronous
// on the stream.
void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace,
                                 const TensorParallel& tensor, size_t first_token);

// The rows of an evaluation whose target counts, and those of them that are right: no other logit
// is above the target's.
struct Hits {
  size_t all = 0, right = 0;
};

// Computes only the losses, for evaluation, and adds to the hits unless they are null. Asynchronous
// on the stream without hits; with them it waits. REQUIRES, for hits: the logits are not rounded.
void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace,
                        const TensorParallel& tensor, size_t first_token, Hits* hits = nullptr);

}  // namespace ladder
