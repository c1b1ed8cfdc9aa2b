#include "common/model/classifier.h"

#include <algorithm>
#include <vector>

#include "kernels/classifier.h"
#include "kernels/matmul.h"
#include "kernels/runtime/target.h"

namespace ladder {
namespace {

// Calls body(first, count) for row tiles of at most `tile_rows` rows, in order.
template <class Body>
void for_row_tiles(size_t rows, size_t tile_rows, Body body) {
  for (size_t first = 0; first < rows; first += tile_rows) {
    body(first, std::min(tile_rows, rows - first));
  }
}

// The views of one row tile in the workspace.
struct RowTile {
  TensorView logits, dlogits;  // (rows, V)
  TensorView statistics;       // (3 rows)

  size_t rows() const { return logits.shape()[0]; }
  TensorView maximum() const { return statistics.rows(0, rows()); }
  TensorView sum() const { return statistics.rows(rows(), rows()); }
  TensorView target_logit() const { return statistics.rows(2 * rows(), rows()); }
  // Both side by side, so that one reduction serves both.
  TensorView sums() const { return statistics.rows(rows(), 2 * rows()); }
};

// Takes the views of one row tile, and computes its logits.
RowTile begin_tile(Stream& stream, const ClassifierWorkspace& workspace, ConstTensorView x,
                   ConstTensorView wte) {
  const size_t rows = x.shape()[0];
  const RowTile tile = {workspace.logits.rows(0, rows), workspace.dlogits.rows(0, rows),
                        workspace.statistics.rows(0, 3 * rows)};
  matmul(stream, tile.logits, x, wte, {.transpose_b = true});
  return tile;
}

// Turns the logits into exponentials, and computes their statistics over the whole vocabulary.
void exponentials(Stream& stream, const RowTile& tile, ConstTensorView targets,
                  const TensorParallel& tensor, size_t first_token) {
  softmax_maximum(stream, tile.maximum(), tile.logits);
  if (tensor.reduce_statistics) {
    tensor.reduce_statistics(stream, tile.maximum(), Reduction::max);
  }
  softmax_exponentials(stream, tile.logits, tile.sum(), tile.target_logit(), targets,
                       tile.maximum(), first_token);
  if (tensor.reduce_statistics) tensor.reduce_statistics(stream, tile.sums(), Reduction::sum);
}

// Turns the logits into the losses and the logits' gradient.
void loss_and_gradient(Stream& stream, const RowTile& tile, TensorView losses,
                       ConstTensorView targets, double loss_scale, const TensorParallel& tensor,
                       size_t first_token) {
  if (!tensor.reduce_statistics) {
    softmax_cross_entropy(stream, losses, tile.dlogits, tile.logits, tile.statistics, targets,
                          loss_scale);
    return;
  }
  exponentials(stream, tile, targets, tensor, first_token);
  cross_entropy(stream, losses, tile.dlogits, tile.logits, tile.sum(), tile.target_logit(), targets,
                first_token, loss_scale);
}

// A target's logit, from which the row's maximum is taken off, is 0 where it is the largest. There
// are few rows in an evaluation, so the host counts them.
void count_hits(Stream& stream, ConstTensorView target_logit, ConstTensorView targets, Hits& hits) {
  const Shape rows = targets.shape();
  dispatch_accumulation(target_logit.dtype(), [&](auto zero) {
    std::vector<decltype(zero)> logits(rows[0]);
    std::vector<int32_t> target(rows[0]);
    copy(stream, TensorView(logits.data(), target_logit.dtype(), DeviceType::cpu, rows),
         target_logit);
    copy(stream, TensorView(target.data(), DType::int32, DeviceType::cpu, rows), targets);
    stream.synchronize();
    for (size_t r = 0; r < rows[0]; ++r) {
      if (target[r] == kIgnored) continue;
      ++hits.all;
      if (logits[r] == 0) ++hits.right;
    }
  });
}

}  // namespace

void classifier_forward_backward(Stream& stream, TensorView losses, TensorView dx, TensorView dwte,
                                 ConstTensorView x, ConstTensorView wte, ConstTensorView targets,
                                 double loss_scale, const ClassifierWorkspace& workspace,
                                 const TensorParallel& tensor, size_t first_token) {
  for_row_tiles(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const ConstTensorView rows = x.rows(first, count), t = targets.rows(first, count);
    const RowTile tile = begin_tile(stream, workspace, rows, wte);
    loss_and_gradient(stream, tile, losses.rows(first, count), t, loss_scale, tensor, first_token);
    if (!dx.empty()) matmul(stream, dx.rows(first, count), tile.dlogits, wte);
    if (dwte.empty()) return;
    matmul(stream, dwte, tile.dlogits, rows, {.transpose_a = true, .accumulate = true});
  });
}

void classifier_forward(Stream& stream, TensorView losses, ConstTensorView x, ConstTensorView wte,
                        ConstTensorView targets, const ClassifierWorkspace& workspace,
                        const TensorParallel& tensor, size_t first_token, Hits* hits) {
  for_row_tiles(x.shape()[0], workspace.logits.shape()[0], [&](size_t first, size_t count) {
    const RowTile tile = begin_tile(stream, workspace, x.rows(first, count), wte);
    const ConstTensorView t = targets.rows(first, count);
    if (tile.logits.dtype() != losses.dtype()) {  // exponentials would be rounded, too
      check(hits == nullptr, "classifier_forward: no hits of rounded logits");
      loss_and_gradient(stream, tile, losses.rows(first, count), t, 1, tensor, first_token);
      return;
    }
    exponentials(stream, tile, t, tensor, first_token);
    if (hits != nullptr) count_hits(stream, tile.target_logit(), t, *hits);
    cross_entropy_loss(stream, losses.rows(first, count), tile.sum(), tile.target_logit());
  });
}

}  // namespace ladder
