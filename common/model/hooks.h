// Where a trainer reaches into the model's forward and backward.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

#include "common/model/layout.h"

namespace ladder {

// The classifier uses the token embedding once more, after the final norm: a pass of its own.
enum class Pass { forward, classifier, backward };

constexpr std::string_view name_of(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "forward";
    case Pass::classifier:
      return "classifier";
    case Pass::backward:
      return "backward";
  }
  return "?";
}

// Function objects that the model calls; each may be empty. They are called in the same order on
// every micro-batch, and the model keeps nothing of what they return beyond `done`.
struct Hooks {
  // Just before a unit's parameters are used: where they are. Valid until done(unit, pass).
  // Empty: in the flat buffer.
  std::function<ConstUnitView(size_t unit, Pass pass)> weights;
  // Where backward adds the unit's gradient. Valid until done(unit, Pass::backward).
  // Empty: in the flat buffer.
  std::function<UnitView(size_t unit)> gradient;
  // The unit is not touched again in this pass. In backward its gradient is then final for this
  // micro-batch. The token embedding's gradient begins in the classifier pass and is final at
  // done(token embedding, Pass::backward), the last call of all.
  std::function<void(size_t unit, Pass pass)> done;
};

}  // namespace ladder
