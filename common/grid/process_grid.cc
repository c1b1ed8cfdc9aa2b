#include "common/grid/process_grid.h"

#include <algorithm>

#include "kernels/runtime/check.h"

namespace ladder {

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::world:
      return "world";
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::context:
      return "context";
    case Axis::tensor:
      return "tensor";
    case Axis::embedding:
      return "embedding";
  }
  return "?";
}

size_t ProcessGrid::world_size() const {
  size_t ranks = 1;
  for (Axis axis : kGridAxes) ranks *= size(axis);
  return ranks;
}

size_t ProcessGrid::size(Axis axis) const {
  switch (axis) {
    case Axis::world:
      return world_size();
    case Axis::pipeline:
      return pipeline_size;
    case Axis::data:
      return data_size;
    case Axis::context:
      return context_size;
    case Axis::tensor:
      return tensor_size;
    case Axis::embedding:
      return std::min<size_t>(pipeline_size, 2);
  }
  return 1;
}

size_t ProcessGrid::stride(Axis axis) const {
  size_t ranks = 1;  // the product of the sizes of all faster axes
  for (size_t i = kGridAxes.size(); kGridAxes[--i] != axis;) ranks *= size(kGridAxes[i]);
  return ranks;
}

ProcessGrid::Group ProcessGrid::group(Axis axis) const {
  if (axis == Axis::world) return {0, rank, world_size()};
  if (axis == Axis::embedding) {
    const Group stages = group(Axis::pipeline);
    const bool is_last = stages.rank + 1 == stages.size;
    const bool is_middle = stages.rank != 0 && !is_last;
    if (stages.size == 1 || is_middle) return {rank, 0, 1};
    return {stages.color, size_t{is_last}, 2};
  }
  // The color is the rank's number without the digit of this axis.
  const size_t faster = stride(axis), slower = faster * size(axis);
  return {rank / slower * faster + rank % faster, place(axis), size(axis)};
}

std::string layout_text(const ProcessGrid& grid) {
  std::string text;
  for (Axis axis : {Axis::data, Axis::pipeline, Axis::context, Axis::tensor}) {
    if (grid.size(axis) == 1) continue;
    text += concat(text.empty() ? "" : ",", name_of(axis), "=", grid.size(axis));
  }
  return text.empty() ? "data=1" : text;
}

}  // namespace ladder
