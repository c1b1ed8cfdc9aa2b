// Which models ranks can split into slices of tensors.
#pragma once

#include <cstddef>
#include <string>

#include "common/model/config.h"

namespace ladder {

// Whether so many tensor-parallel ranks can split the model: they divide the heads and the inner
// layer of each block, they divide the heads of k and v or are a multiple of them, and each has at
// least one token of the vocabulary, and one label of a head.
bool can_split(const ModelConfig& config, size_t tensor_size);
// Throws a UserError that begins with `asked` ("--tensor-parallel-size 3") and names a size that
// would do if they cannot.
void check_split(const ModelConfig& config, size_t tensor_size, const std::string& asked);

}  // namespace ladder
