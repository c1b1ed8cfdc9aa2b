// Where a trainer reaches into the model's forward and backward.
#pragma once

#include <functional>

#include "common/model/walk.h"

namespace ladder {

// Functions that the model calls at every use of a unit, in the order of the walk (walk.h). Each
// may be empty. The model keeps nothing of what they return beyond `done`.
struct Hooks {
  // Asked before a use that reads weights: where they are, valid until done(use).
  // Empty: in the flat buffer.
  std::function<ConstUnitView(const Use& use)> weights;
  // Asked before a use that writes a gradient: where to add it, valid until done(use).
  // Empty: in the flat buffer.
  std::function<UnitView(const Use& use)> gradient;
  // The use has been queued on the stream. With use.gradient_is_final what follows on the stream
  // finds the unit's gradient complete for this micro-batch.
  std::function<void(const Use& use)> done;
};

}  // namespace ladder
