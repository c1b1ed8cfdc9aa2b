// Hooks: the points at which a trainer takes part in the model's forward and backward.
#pragma once

#include <functional>

#include "common/model/walk.h"

namespace ladder {

// The model calls these functions at every use of a unit, in the order of the walk (walk.h). Each
// of them may be empty.
struct Hooks {
  // Called before each use, first of all.
  std::function<void(const Use& use)> begin = {};
  // Called before a use that reads weights. It returns the place of the unit's weights, which stays
  // valid until done(use). If it is empty, weights are in the flat buffer.
  std::function<ConstUnitView(const Use& use)> weights = {};
  // Called before a use that adds to a gradient. It returns the place of the unit's gradient, which
  // stays valid until done(use). If it is empty, gradients are in the flat buffer.
  std::function<UnitView(const Use& use)> gradient = {};
  // Called when the use has been queued on the stream. The model does not use the two views any
  // more. If use.gradient_is_final, work that is queued from now on finds the unit's gradient
  // complete for this micro-batch.
  std::function<void(const Use& use)> done = {};
};

}  // namespace ladder
