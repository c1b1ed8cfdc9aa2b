// Hooks that keep every unit's weights and gradients away from the flat buffers.
#pragma once

#include <utility>

#include "tests/common/model/support.h"

namespace ladder::testing {

// Weights and gradients away from the flat buffers. A unit's copy is spoiled when the model is done
// with it, and its gradient goes to the flat buffer only then.
class ScratchUnits {
 public:
  explicit ScratchUnits(TestModel& model) : model_(model) {
    for (const Unit& unit : model.layout.units()) {
      for (auto* scratch : {&weights_, &gradients_}) {
        scratch->emplace_back(memory(), Category::workspace, model.dtype,
                              Shape{unit.padded_elements});
      }
    }
  }

  Hooks hooks() {
    return {.weights =
                [this](const Use& use) {
                  const size_t unit = use.unit;
                  copy(stream(), weights_[unit], part(model_.parameters, unit));
                  return ConstUnitView(model_.layout.unit(unit), weights_[unit]);
                },
            .gradient =
                [this](const Use& use) {
                  return UnitView(model_.layout.unit(use.unit), gradients_[use.unit]);
                },
            .done =
                [this](const Use& use) {
                  const size_t unit = use.unit;
                  fill(stream(), weights_[unit], std::nan(""));
                  if (!use.gradient_is_final) return;
                  const TensorView flat = part(model_.gradients, unit);
                  add(stream(), flat, flat, gradients_[unit]);
                  fill(stream(), gradients_[unit], 0);
                }};
  }

 private:
  TensorView part(const Tensor& flat, size_t unit) const {
    return unit_in_flat(model_.layout, unit, flat.view());
  }

  TestModel& model_;
  std::vector<Tensor> weights_, gradients_;
};

}  // namespace ladder::testing
