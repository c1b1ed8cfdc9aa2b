// AdamW on flat buffers without an optimizer's state, for tests that write a step out.
#pragma once

#include <vector>

#include "common/model/layout.h"
#include "kernels/adamw.h"

namespace ladder::testing {

// Returns what there is to update among elements [first, first + n) of the flat buffer, parameter
// by parameter. The views of `range` have just these elements: (n) each. Padding is not among them.
inline std::vector<AdamWTensors> adamw_tensors(const Layout& layout, size_t first,
                                               const AdamWTensors& range) {
  std::vector<AdamWTensors> tensors;
  for_parameters_in(
      layout, first, first + range.param.num_elements(),
      [&](const Parameter& parameter, size_t, size_t from, size_t to) {
        const auto part = [&](auto view) { return view.rows(from - first, to - from); };
        tensors.push_back({part(range.param), part(range.exp_avg), part(range.exp_avg_sq),
                           part(range.grad), TensorView(), parameter.decays()});
      });
  return tensors;
}

}  // namespace ladder::testing
