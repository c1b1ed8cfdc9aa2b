// Which units each stage of the pipeline holds. Units in forward order: token embedding, position
// embedding, L blocks, the final norm with the classifier; L + 3 in all.
#pragma once

#include "common/model/config.h"
#include "common/schedule/balance.h"

namespace ladder {

// Floating-point operations of each unit's matrix products for one token, forward and backward
// (twice as many as forward): embeddings 0, a block 3 (24 C^2 + 4 T C), with causal attention
// counted in full as in Gpt2Config::flops_per_token, the classifier 3 (2 C V). For cut_units.
std::vector<double> unit_flops(const Gpt2Config& config);

// The cut that --stage-layers asks for: layers[s] blocks on stage s, the embeddings on the first
// stage, the final norm on the last. These two may be without a block.
// UserError with an example that works, when the numbers of stages or layers are not the model's or
// a stage in the middle has none, and when there are more stages than L + 2.
std::vector<size_t> cut_at_layers(const Gpt2Config& config, const std::vector<size_t>& layers,
                                  size_t num_stages);

}  // namespace ladder
