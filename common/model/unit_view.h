// Views of the tensors of one unit.
#pragma once

#include <vector>

#include "common/model/parameter.h"

namespace ladder {

// A view of a unit's parameters (or gradients), padding included. view[i] is the tensor of all
// parameters with index i. It is empty if these have no elements: as the gradient of frozen ones.
template <class View>
class BasicUnitView {
 public:
  // `flat` has unit.padded_elements elements. It and `unit` must outlive this view.
  BasicUnitView(const Unit& unit, View flat) : unit_(&unit), flat_(flat) {}
  View operator[](size_t index) const {
    const Parameter* first = nullptr;
    size_t rows = 0;
    for (const Parameter& parameter : unit_->parameters) {
      if (parameter.index != index || parameter.shape.num_elements() == 0) continue;
      first = first == nullptr ? &parameter : first;
      rows += parameter.shape[0];
    }
    return first == nullptr ? View() : flat_.elements(first->offset, first->shape.with_rows(rows));
  }
  // Returns the same tensor, parameter by parameter.
  std::vector<View> each(size_t index) const {
    std::vector<View> tensors;
    for (const Parameter& parameter : unit_->parameters) {
      if (parameter.index != index || parameter.shape.num_elements() == 0) continue;
      tensors.push_back(flat_.elements(parameter.offset, parameter.shape));
    }
    return tensors;
  }

 private:
  const Unit* unit_;
  View flat_;
};
using UnitView = BasicUnitView<TensorView>;
using ConstUnitView = BasicUnitView<ConstTensorView>;

}  // namespace ladder
