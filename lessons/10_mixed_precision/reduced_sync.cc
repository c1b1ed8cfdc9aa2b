#include "lessons/10_mixed_precision/reduced_sync.h"

#include "kernels/elementwise.h"

namespace ladder {

Hooks ReducedSync::hooks() {
  Hooks inner = inner_->hooks();
  Hooks hooks = inner;
  hooks.done = [this, inner](const Use& use) {
    if (use.gradient_is_final) {
      const Layout& layout = state_.layout();
      cast(state_.stream(), unit_in_flat(layout, use.unit, reduced_),
           unit_in_flat(layout, use.unit, state_.gradients.view()));
    }
    if (inner.done) inner.done(use);
  };
  return hooks;
}

void ReducedSync::wait() {
  inner_->wait();
  for (size_t unit = 0; unit < state_.layout().units().size(); ++unit) {
    cast(state_.stream(), summed(unit), inner_->summed(unit));
  }
}

TensorView ReducedSync::summed(size_t unit) const {
  const TensorView whole = unit_in_flat(state_.layout(), unit, state_.gradients.view());
  const bool is_whole = inner_->summed(unit).num_elements() == whole.num_elements();
  return is_whole ? whole : state_.shard(state_.gradients, unit);
}

}  // namespace ladder
