// What --no-overlap changes: no message runs beside the computation.
#pragma once

#include <memory>
#include <vector>

#include "common/model/tensor_parallel.h"
#include "common/train/trainer/gradient_sync.h"

namespace ladder {

// Returns the points of a tensor group without overlap: what enter_again and enter_backward return
// has arrived, so the product of a weight's gradient begins after it.
TensorParallel without_overlap(TensorParallel points);

// LateSync wraps another GradientSync, whose sums it starts when backward is over.
class LateSync final : public GradientSync {
 public:
  explicit LateSync(std::unique_ptr<GradientSync> inner) : inner_(std::move(inner)) {}

  Hooks hooks() override;
  void wait() override;
  TensorView summed(size_t unit) const override { return inner_->summed(unit); }
  double update(double norm) override { return inner_->update(norm); }

 private:
  std::unique_ptr<GradientSync> inner_;
  Hooks started_;           // those of `inner_` in this step
  std::vector<Use> final_;  // the uses that made gradients final, in their order
};

}  // namespace ladder
