// Divides the operations of a model among the stages of a pipeline.
#pragma once

#include <vector>

#include "common/model/layout.h"

namespace ladder {

// Returns the FLOP of the part's matrix products for one token in forward and backward. Backward
// has twice as many as forward; of what is frozen only those that lead to something trained
// (ModelDescription::flops_per_token).
double part_flops(const ModelDescription& model, const ModelPartition& part);

// Returns those of forward.
double forward_flops(const ModelDescription& model, const ModelPartition& part);

// Returns the largest number of stages that the model can be cut into. A stage has at least one
// operation, and the classifier stays with the final norm.
size_t most_stages(const ModelDescription& model);

// Returns contiguous stages such that the most expensive one, which the others wait for, is as
// cheap as possible (balance.h). Throws a UserError that names both numbers if there are more than
// most_stages().
std::vector<ModelPartition> cut_evenly(const ModelDescription& model, size_t num_stages);

// Returns the stages that --stage-layers asks for. Stage s has layers[s] transformer blocks. The
// operations before the blocks are on the first stage, those after them on the last stage; only
// these two stages may have no block. Throws a UserError with an example that works if the numbers
// of stages or layers are not right, or if a stage in the middle has no block.
std::vector<ModelPartition> cut_at_layers(const ModelDescription& model,
                                          const std::vector<size_t>& layers, size_t num_stages);

}  // namespace ladder
