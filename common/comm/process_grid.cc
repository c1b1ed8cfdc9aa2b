#include "common/comm/process_grid.h"

namespace ladder {

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::world:
      return "world";
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::tensor:
      return "tensor";
    case Axis::embedding:
      return "embedding";
  }
  return "?";
}

size_t ProcessGrid::size(Axis axis) const {
  switch (axis) {
    case Axis::world:
      return world_size();
    case Axis::pipeline:
      return pipeline_size;
    case Axis::data:
      return data_size;
    case Axis::tensor:
      return tensor_size;
    case Axis::embedding:
      return pipeline_size > 1 ? 2 : 1;
  }
  return 1;
}

ProcessGrid::Group ProcessGrid::group(Axis axis) const {
  const size_t stage_size = data_size * tensor_size;  // ranks of a pipeline stage
  const bool is_first = pipeline_rank() == 0, is_last = pipeline_rank() + 1 == pipeline_size;
  switch (axis) {
    case Axis::world:
      return {0, rank, world_size()};
    case Axis::pipeline:
      return {rank % stage_size, pipeline_rank(), pipeline_size};
    case Axis::data:
      return {pipeline_rank() * tensor_size + tensor_rank(), data_rank(), data_size};
    case Axis::tensor:
      return {rank / tensor_size, tensor_rank(), tensor_size};
    case Axis::embedding:
      if (is_first == is_last) return {rank, 0, 1};  // only one stage, or one in the middle
      return {rank % stage_size, size_t{is_last}, 2};
  }
  return {0, 0, 1};
}

}  // namespace ladder
