// The loss scale of fp16, which is found while training.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/slices.h"
#include "common/train/trainer/flag_value.h"

namespace ladder {

struct LossScaleFlags {
  double loss_scale = 0;         // a fixed scale; 0 = a dynamic one for fp16, and 1 otherwise
  double initial_scale = 65536;  // the first value of a dynamic scale
  int64_t window = 1000;         // it doubles after so many steps without overflow
  int64_t hysteresis = 2;  // it halves at this overflow since it last doubled, and each later one
  double min_loss_scale = 1;
  void add_to(FlagTable& flags);
  // Throws UserError unless the flags fit each other.
  void check() const;
};

// LossScaler has the present loss scale. fp16 has no number between 0 and 6e-8, and the gradients
// of activations of a mean loss are often smaller. So the gradient of the loss is multiplied by a
// scale, and gradients are divided by it when they have been summed in fp32. With too large a scale
// gradients overflow to infinity: such a step is skipped and the scale halves. After `window` steps
// without overflow it doubles. [Micikevicius18, section 3.2]
//
// The first hysteresis - 1 overflows since the scale last doubled do not change it, so that one bad
// micro-batch does not cost a factor of two. A good step does not reset their count, as in
// Megatron-LM.
class LossScaler {
 public:
  // Training gives up after so many overflows in a row at the smallest scale.
  static constexpr int64_t kMostSkips = 20;

  // Without `dynamic` the scale is fixed; it is 1 if the flags give none.
  LossScaler(const LossScaleFlags& flags, bool dynamic);

  double scale() const { return scale_; }
  // Adapts the scale after each step (1-based); `overflow` says whether a gradient overflowed in
  // it. Throws an Error that names the step if that has happened kMostSkips times in a row at the
  // smallest scale, which a fixed one always is.
  void update(bool overflow, int64_t step);
  // Returns what a checkpoint keeps of it. A fixed scale is the flags' affair.
  std::vector<Scalar> scalars();

 private:
  LossScaleFlags flags_;
  bool dynamic_;
  double scale_;
  int64_t good_steps_ = 0, overflows_left_ = 0, skips_at_minimum_ = 0;
};

}  // namespace ladder
