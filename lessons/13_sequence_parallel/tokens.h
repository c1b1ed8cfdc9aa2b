// The residual stream split by tokens: how ranks gather and scatter its rows, which gradients are
// partial, and what all of it communicates.
#pragma once

#include <string>

#include "common/comm/grid_groups.h"
#include "common/model/layout.h"
#include "common/model/tensor_parallel.h"
#include "common/train/trainer/flag_value.h"
#include "common/train/trainer/trainer.h"

namespace ladder {

// Options of a program whose ranks split the tokens.
struct TokenFlags {
  // What becomes of the gathered inputs of layers with a weight split by columns: "again" gathers
  // them once more in backward, "keep" keeps them until then.
  std::string gathered = "again";
  bool keeps() const { return gathered == "keep"; }
  void add_to(FlagTable& flags);
};

// Throws UserError unless each of so many ranks gets a row of a micro-batch (row_split.h). Also
// throws if what is to be kept is to be recomputed.
void check_tokens(const RunConfig& config, size_t tensor_size, const TokenFlags& flags);

// Returns the functions by which the model combines results with the other ranks of the group. Each
// all_reduce of lesson 07 at f or g is a reduce_scatter and an all_gather here. Where ranks leave a
// pair of layers, each gets the sum of its own rows; where they enter the next pair, they gather
// the rows of all. Backward does the same the other way round. For the gradient of the pair's first
// weight, its input is gathered once more, unless it was kept. [Korthikanti22, section 4.2.2]
// `ranks` must outlive the functions.
TensorParallel sequence_parallel_on(Communicator& ranks);

// Sums the gradients of the parameters that are not split: layernorms, positions, and the biases
// that are added after a sum. Each rank has added up those of its own tokens alone. `gradients` is
// a flat buffer of the layout. Asynchronous on the stream.
void sum_partial_gradients(Stream& stream, const Layout& layout, TensorView gradients,
                           Communicator& ranks);

}  // namespace ladder
