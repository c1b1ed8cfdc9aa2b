// Slices of tensors: how ranks combine their results.
#pragma once

#include "common/comm/grid_groups.h"
#include "common/model/divisible.h"
#include "common/model/tensor_parallel.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Throws UserError if so many ranks cannot split the model (check_split() of common/model).
inline void check_slices(const ModelConfig& config, size_t tensor_size) {
  check_split(config, tensor_size, concat("--tensor-parallel-size ", tensor_size));
}

// Returns the functions by which the model combines results with the other ranks of the group. They
// use all_reduce. `ranks` must outlive them.
TensorParallel tensor_parallel_on(Communicator& ranks);

}  // namespace ladder
