// Slices of tensors: how ranks combine their results, and what that
// communicates.
#pragma once

#include "common/comm/grid_groups.h"
#include "common/model/description.h"
#include "common/model/tensor_parallel.h"
#include "common/train/trainer/config.h"

namespace ladder {

// Throws UserError if so many ranks cannot split the model (check_split() of common/model).
inline void check_slices(const Gpt2Config& config, size_t tensor_size) {
  check_split(config, tensor_size, concat("--tensor-parallel-size ", tensor_size));
}

// Returns the functions by which the model combines results with the other ranks of the group. They
// use all_reduce. `ranks` must outlive them.
TensorParallel tensor_parallel_on(Communicator& ranks);

// Returns what tensor-parallel ranks sum in `num_micro_batches` micro-batches of this part of the
// model. With R rows (tokens) in a micro-batch and hidden size C, they sum R C elements
//   - after each of a transformer block's two products with a weight split by rows, in forward;
//   - for the input of each of its two products with a weight split by columns, in backward;
//   - after the token embedding; and for the gradient of the classifier's input.
// With --recompute the products with a weight split by rows that run again are summed again. The
// classifier also needs 3 statistics for each row. `num_in_flight` is that of plan_recompute().
Traffic tensor_traffic(const RunConfig& config, const Layout& layout, size_t num_micro_batches,
                       size_t num_in_flight = 1);

}  // namespace ladder
