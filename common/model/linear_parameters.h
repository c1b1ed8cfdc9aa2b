// The parameters of a linear layer, as a unit of the model's description has them.
#pragma once

#include <string>

#include "common/model/description.h"

namespace ladder {

// Returns a weight that begins with numbers of this deviation.
ParameterSpec weight(std::string name, const Shape& shape, TensorSplit split,
                     double deviation = kInitialDeviation);

// Adds the weights of the layer's parts, which get `index`, then biases, then adapters, whose
// indices follow (LinearParameter).
void add_linear(UnitSpec& unit, const std::string& group, const Linear& linear, size_t index);

}  // namespace ladder
