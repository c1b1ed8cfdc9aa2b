#include "common/model/classifier.h"

#include <algorithm>

#include "kernels/classifier.h"
#include "kernels/matmul.h"

namespace ladder {
namespace {

// Calls body(first, count) for blocks of rows that the workspace holds, in order.
template <class Body>
void for_row_blocks(size_t rows, size_t block_rows, Body body) {
  for (size_t first = 0; first < rows; first += block_rows) {
    body(first, std::min(block_rows, rows - first));
  }
}

// The workspace cut to `count` rows, with exponentials in place of the logits.
ClassifierWorkspace exponentials(Stream& stream, const ClassifierWorkspace& whole, size_t count,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets) {
  const ClassifierWorkspace block = {whole.logits.rows(0, count), whole.maximum.rows(0, count),
                                     whole.sum.rows(0, count), whole.target_logit.rows(0, count)};
  matmul(stream, block.logits, x, wte, {.transpose_b = true});
  softmax_maximum(stream, block.maximum, block.logits);
  softmax_exponentials(stream, block.logits, block.sum, block.target_logit, targets, block.maximum,
                       0);
  return block;
}

}  // namespace

void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace) {
  for_row_blocks(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const ConstTensorView rows = x.rows(first, count), t = targets.rows(first, count);
    const ClassifierWorkspace block = exponentials(stream, workspace, count, rows, wte, t);
    cross_entropy(stream, losses.rows(first, count), block.logits, block.logits, block.sum,
                  block.target_logit, t, 0, loss_scale);
    matmul(stream, dx.rows(first, count), block.logits, wte);
    matmul(stream, dwte, block.logits, rows, {.transpose_a = true, .accumulate = true});
  });
}

void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace) {
  for_row_blocks(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const ClassifierWorkspace block = exponentials(stream, workspace, count, x.rows(first, count),
                                                   wte, targets.rows(first, count));
    cross_entropy_loss(stream, losses.rows(first, count), block.sum, block.target_logit);
  });
}

}  // namespace ladder
