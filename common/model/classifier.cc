#include "common/model/classifier.h"

#include <algorithm>

#include "kernels/classifier.h"
#include "kernels/matmul.h"

namespace ladder {
namespace {

// Calls body(first, count) for row blocks of at most `block_rows` rows, in order.
template <class Body>
void for_row_blocks(size_t rows, size_t block_rows, Body body) {
  for (size_t first = 0; first < rows; first += block_rows) {
    body(first, std::min(block_rows, rows - first));
  }
}

// The views of one row block in the workspace.
struct RowBlock {
  TensorView logits, dlogits;  // (rows, V)
  TensorView statistics;       // (3 rows)

  size_t rows() const { return logits.shape()[0]; }
  TensorView maximum() const { return statistics.rows(0, rows()); }
  TensorView sum() const { return statistics.rows(rows(), rows()); }
  TensorView target_logit() const { return statistics.rows(2 * rows(), rows()); }
  // Both side by side, so that one reduction serves both.
  TensorView sums() const { return statistics.rows(rows(), 2 * rows()); }
};

// Takes the views of one row block, and computes its logits.
RowBlock begin_block(Stream& stream, const ClassifierWorkspace& workspace, ConstTensorView x,
                     ConstTensorView wte) {
  const size_t rows = x.shape()[0];
  const RowBlock block = {workspace.logits.rows(0, rows), workspace.dlogits.rows(0, rows),
                          workspace.statistics.rows(0, 3 * rows)};
  matmul(stream, block.logits, x, wte, {.transpose_b = true});
  return block;
}

// Turns the logits into exponentials, and computes their statistics over the whole vocabulary.
void exponentials(Stream& stream, const RowBlock& block, ConstTensorView targets,
                  const TensorParallel& tensor, size_t first_token) {
  softmax_maximum(stream, block.maximum(), block.logits);
  if (tensor.reduce_statistics) {
    tensor.reduce_statistics(stream, block.maximum(), Reduction::max);
  }
  softmax_exponentials(stream, block.logits, block.sum(), block.target_logit(), targets,
                       block.maximum(), first_token);
  if (tensor.reduce_statistics) tensor.reduce_statistics(stream, block.sums(), Reduction::sum);
}

// Turns the logits into the losses and the logits' gradient.
void loss_and_gradient(Stream& stream, const RowBlock& block, TensorView losses,
                       ConstTensorView targets, double loss_scale, const TensorParallel& tensor,
                       size_t first_token) {
  if (!tensor.reduce_statistics) {
    softmax_cross_entropy(stream, losses, block.dlogits, block.logits, block.statistics, targets,
                          loss_scale);
    return;
  }
  exponentials(stream, block, targets, tensor, first_token);
  cross_entropy(stream, losses, block.dlogits, block.logits, block.sum(), block.target_logit(),
                targets, first_token, loss_scale);
}

}  // namespace

void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace,
                                 const TensorParallel& tensor, size_t first_token) {
  for_row_blocks(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const ConstTensorView rows = x.rows(first, count), t = targets.rows(first, count);
    const RowBlock block = begin_block(stream, workspace, rows, wte);
    loss_and_gradient(stream, block, losses.rows(first, count), t, loss_scale, tensor, first_token);
    matmul(stream, dx.rows(first, count), block.dlogits, wte);
    matmul(stream, dwte, block.dlogits, rows, {.transpose_a = true, .accumulate = true});
  });
}

void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace,
                        const TensorParallel& tensor, size_t first_token) {
  for_row_blocks(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const RowBlock block = begin_block(stream, workspace, x.rows(first, count), wte);
    const ConstTensorView t = targets.rows(first, count);
    if (block.logits.dtype() != losses.dtype()) {  // exponentials would be rounded, too
      loss_and_gradient(stream, block, losses.rows(first, count), t, 1, tensor, first_token);
      return;
    }
    exponentials(stream, block, t, tensor, first_token);
    cross_entropy_loss(stream, losses.rows(first, count), block.sum(), block.target_logit());
  });
}

}  // namespace ladder
