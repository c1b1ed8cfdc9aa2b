// How the ranks of a run are arranged.
#pragma once

#include <cstddef>

namespace ladder {

// Ranks along named axes, tensor fastest: rank = (pipeline * data_size + data) * tensor_size +
// tensor.
struct ProcessGrid {
  size_t pipeline_size = 1, data_size = 1, tensor_size = 1;
  size_t rank = 0;

  size_t world_size() const { return pipeline_size * data_size * tensor_size; }
  size_t tensor_rank() const { return rank % tensor_size; }
  size_t data_rank() const { return rank / tensor_size % data_size; }
  size_t pipeline_rank() const { return rank / tensor_size / data_size; }
};

}  // namespace ladder
