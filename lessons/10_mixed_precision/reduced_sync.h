// Gradients that travel between ranks in fewer bits than they are computed in.
#pragma once

#include <memory>

#include "common/train/gradient_sync.h"
#include "common/train/model_state.h"

namespace ladder {

// Wraps a synchronization that works on `reduced`, a buffer with the layout of the gradients and
// another dtype: gradients are rounded into it when they are final, and their sums widened out of
// it.
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
