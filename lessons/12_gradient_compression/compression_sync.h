// What all ways to compress gradients have in common.
#pragma once

#include <utility>

#include "common/train/trainer/gradient_sync.h"
#include "lessons/12_gradient_compression/feedback.h"

namespace ladder {

// After wait() every rank has the sum of all gradients, as far as it came through, and makes the
// same update.
class CompressionSync : public GradientSync {
 public:
  CompressionSync(ModelState& state, Feedback feedback)
      : state_(state), feedback_(std::move(feedback)) {}

  TensorView summed(size_t unit) const override {
    return unit_in_flat(state_.layout().trained(), unit, state_.gradients.view());
  }
  double update(double norm) override { return state_.update(norm); }
  // What checkpoints have besides the state.
  Feedback& feedback() { return feedback_; }

 protected:
  ModelState& state_;
  Feedback feedback_;
};

}  // namespace ladder
