// Gradients that are summed over the ranks in fewer bits than they are computed in.
#pragma once

#include <memory>

#include "common/train/gradient_sync.h"
#include "common/train/model_state.h"

namespace ladder {

// ReducedSync wraps another GradientSync, `inner`, that works on the flat buffer `reduced`, which
// has another dtype. When a unit's gradient is final it is rounded into `reduced`, `inner` sums it
// there, and the sum is converted back.
class ReducedSync final : public GradientSync {
 public:
  ReducedSync(ModelState& state, TensorView reduced, std::unique_ptr<GradientSync> inner)
      : state_(state), reduced_(reduced), inner_(std::move(inner)) {}

  Hooks hooks() override;
  void wait() override;
  TensorView summed(size_t unit) const override;
  void update(const AdamWStep& step) override { inner_->update(step); }

 private:
  ModelState& state_;
  TensorView reduced_;
  std::unique_ptr<GradientSync> inner_;
};

}  // namespace ladder
