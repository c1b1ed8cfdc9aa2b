#include "lessons/10_mixed_precision/loss_scaler.h"

#include <algorithm>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "kernels/runtime/check.h"

namespace ladder {

void LossScaleFlags::add_to(FlagTable& flags) {
  flags.heading("Loss scale");
  flags.add("--loss-scale", loss_scale, "Fixed; 0 = dynamic for fp16, 1 for other dtypes [0]",
            real(0, 0x1p100));
  flags.add("--initial-scale", initial_scale, "Of a dynamic scale, to begin with [65536]",
            real(0, 0x1p100, true));
  flags.add("--loss-scale-window", window, "Steps without overflow until it doubles [1000]",
            whole(1, 1'000'000'000));
  flags.add("--hysteresis", hysteresis, "Overflows since it last doubled until it halves [2]",
            whole(1, 1'000'000'000));
  flags.add("--min-loss-scale", min_loss_scale, "It never becomes smaller than this [1]",
            real(0, 0x1p100, true));
}

void LossScaleFlags::check() const {
  if (min_loss_scale <= initial_scale) return;
  throw UserError(
      concat("--min-loss-scale ", min_loss_scale, " is above --initial-scale ", initial_scale));
}

LossScaler::LossScaler(const LossScaleFlags& flags, bool dynamic)
    : flags_(flags),
      dynamic_(dynamic && flags.loss_scale == 0),
      scale_(dynamic_ ? flags.initial_scale : (flags.loss_scale > 0 ? flags.loss_scale : 1)),
      overflows_left_(flags.hysteresis) {}

void LossScaler::update(bool overflow, int64_t step) {
  if (!overflow) {
    skips_at_minimum_ = 0;
    if (!dynamic_ || ++good_steps_ < flags_.window) return;
    scale_ *= 2;
    good_steps_ = 0;
    overflows_left_ = flags_.hysteresis;
    return;
  }
  good_steps_ = 0;
  const bool at_minimum = !dynamic_ || scale_ <= flags_.min_loss_scale;
  skips_at_minimum_ = at_minimum ? skips_at_minimum_ + 1 : 0;
  if (skips_at_minimum_ == kMostSkips) {
    throw Error(concat("step ", step, ": ", kMostSkips,
                       " steps in a row have overflowed at a loss scale of ", scale_,
                       ", which cannot become smaller; try a smaller --learning-rate, ",
                       dynamic_ ? "a smaller --min-loss-scale, " : "a dynamic --loss-scale 0, ",
                       "or --dtype bf16"));
  }
  if (dynamic_ && --overflows_left_ <= 0) scale_ = std::max(scale_ / 2, flags_.min_loss_scale);
}

std::vector<Scalar> LossScaler::scalars() {
  std::vector<Scalar> scalars = {
      {"loss_scale.skips_at_minimum", &skips_at_minimum_, 0, kMostSkips - 1}};
  if (!dynamic_) return scalars;
  scalars.push_back({"loss_scale.scale", &scale_, 0x1p-1022, 0x1p128});
  scalars.push_back({"loss_scale.good_steps", &good_steps_, 0, 1e9});
  scalars.push_back({"loss_scale.overflows_left", &overflows_left_, -0x1p53, 1e9});
  return scalars;
}

}  // namespace ladder
