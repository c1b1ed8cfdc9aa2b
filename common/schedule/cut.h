// Which operations of the model each stage of a pipeline runs.
#pragma once

#include <vector>

#include "common/model/layout.h"

namespace ladder {

// Floating-point operations of the part's matrix products for one token, forward and backward
// (twice as many as forward).
double part_flops(const ModelDescription& model, const ModelPart& part);

// Contiguous stages such that the most expensive one, which the others wait for, is as cheap as it
// can be (balance.h). A stage has at least one operation; the classifier stays with the final norm.
// UserError naming both numbers where there are more stages than that allows.
std::vector<ModelPart> cut_evenly(const ModelDescription& model, size_t num_stages);

// The stages that --stage-layers asks for: layers[s] blocks on stage s, what comes before the
// blocks on the first stage, what comes after them on the last. These two may be without a block.
// UserError with an example that works, when the numbers of stages or layers are not the model's or
// a stage in the middle has none, and when there are more stages than layers and two.
std::vector<ModelPart> cut_at_layers(const ModelDescription& model,
                                     const std::vector<size_t>& layers, size_t num_stages);

}  // namespace ladder
