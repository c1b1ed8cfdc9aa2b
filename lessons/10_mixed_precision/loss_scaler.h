// The loss scale of fp16, found while training.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace ladder {

struct LossScaleFlags {
  double loss_scale = 0;         // fixed; 0 = dynamic for fp16, else 1
  double initial_scale = 65536;  // of a dynamic scale
  int64_t window = 1000;         // steps without overflow until it doubles
  int64_t hysteresis = 2;        // overflows since it last doubled until it halves
  double min_loss_scale = 1;
  void add_to(CLI::App& app);
  // UserError unless the flags fit each other.
  void check() const;
};

// fp16 has no number between 0 and 6e-8, and the gradients of activations of a mean loss are often
// smaller. So dloss is multiplied by a scale, and gradients are divided by it when they have been
// summed in fp32. Too large a scale overflows to infinity: such a step is skipped, and the scale
// halves; after `window` steps without, it doubles. [Micikevicius18, section 3.2]
//
// Of the overflows since the scale last doubled the first hysteresis - 1 leave it as it is: one bad
// micro-batch need not cost a factor of two. (As in Megatron-LM: a good step does not refill it.)
class LossScaler {
 public:
  // Overflows in a row, where the scale cannot become smaller, after which training gives up.
  static constexpr int64_t kMostSkips = 20;

  // Without `dynamic` the scale is fixed, 1 where none is given.
  LossScaler(const LossScaleFlags& flags, bool dynamic);

  double scale() const { return scale_; }
  // After each step (1-based): did a gradient overflow? Throws Error, naming the step, where it has
  // done so kMostSkips times in a row at the smallest scale.
  void update(bool overflow, int64_t step);

 private:
  LossScaleFlags flags_;
  bool dynamic_;
  double scale_;
  int64_t good_steps_ = 0, overflows_left_ = 0, skips_at_minimum_ = 0;
};

}  // namespace ladder
