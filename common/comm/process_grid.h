// How the ranks of a run are arranged.
#pragma once

#include <cstddef>
#include <string_view>

namespace ladder {

// Between which ranks something travels: all of them, those that differ only in their place on one
// axis, or the first and the last pipeline stage, which both have a copy of the token embedding.
enum class Axis { world, pipeline, data, tensor, embedding };

std::string_view name_of(Axis axis);

// Ranks along named axes, tensor fastest: rank = (pipeline * data_size + data) * tensor_size +
// tensor.
struct ProcessGrid {
  size_t pipeline_size = 1, data_size = 1, tensor_size = 1;
  size_t rank = 0;

  size_t world_size() const { return pipeline_size * data_size * tensor_size; }
  // Ranks of a group along the axis.
  size_t size(Axis axis) const;
  // The group along the axis that this rank belongs to: the ranks with the same color, and its
  // number among them. On the axis `embedding` a stage in the middle is a group of its own.
  struct Group {
    size_t color, rank, size;
  };
  Group group(Axis axis) const;
  size_t tensor_rank() const { return rank % tensor_size; }
  size_t data_rank() const { return rank / tensor_size % data_size; }
  size_t pipeline_rank() const { return rank / tensor_size / data_size; }
};

}  // namespace ladder
