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
  TensorView exponentials;                // (rows, V)
  TensorView maximum, sum, target_logit;  // (rows)
};

// Computes the exponentials of the logits of `x`, and their statistics over the whole vocabulary.
RowBlock exponentials(Stream& stream, const ClassifierWorkspace& workspace, ConstTensorView x,
                      ConstTensorView wte, ConstTensorView targets, const TensorParallel& tensor,
                      size_t first_token) {
  const size_t rows = x.shape()[0];
  // The sums and the targets' logits lie side by side, so that one reduction serves both.
  const TensorView sums = workspace.statistics.rows(rows, 2 * rows);
  const RowBlock block = {workspace.logits.rows(0, rows), workspace.statistics.rows(0, rows),
                          sums.rows(0, rows), sums.rows(rows, rows)};
  matmul(stream, block.exponentials, x, wte, {.transpose_b = true});
  softmax_maximum(stream, block.maximum, block.exponentials);
  tensor.reduce_statistics(stream, block.maximum, Reduction::max);
  softmax_exponentials(stream, block.exponentials, block.sum, block.target_logit, targets,
                       block.maximum, first_token);
  tensor.reduce_statistics(stream, sums, Reduction::sum);
  return block;
}

}  // namespace

void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace,
                                 const TensorParallel& tensor, size_t first_token) {
  for_row_blocks(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const ConstTensorView rows = x.rows(first, count), t = targets.rows(first, count);
    const RowBlock block = exponentials(stream, workspace, rows, wte, t, tensor, first_token);
    const TensorView dlogits = workspace.dlogits.rows(0, count);
    cross_entropy(stream, losses.rows(first, count), dlogits, block.exponentials, block.sum,
                  block.target_logit, t, first_token, loss_scale);
    matmul(stream, dx.rows(first, count), dlogits, wte);
    matmul(stream, dwte, dlogits, rows, {.transpose_a = true, .accumulate = true});
  });
  tensor.enter_backward(stream, dx).wait(stream);
}

void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace,
                        const TensorParallel& tensor, size_t first_token) {
  for_row_blocks(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const RowBlock block = exponentials(stream, workspace, x.rows(first, count), wte,
                                        targets.rows(first, count), tensor, first_token);
    cross_entropy_loss(stream, losses.rows(first, count), block.sum, block.target_logit);
  });
}

}  // namespace ladder
