#include "common/comm/grid_groups.h"

#include "common/comm/one_rank.h"
#include "common/comm/staging.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Pipeline stages only send and receive.
constexpr Axis kSummingAxes[] = {Axis::data, Axis::tensor, Axis::embedding};

std::unique_ptr<Communicator> group_on(Axis axis, Communicator& world, const ProcessGrid& grid) {
  if (grid.size(axis) == 1) return std::make_unique<OneRank>(world.device());
  const ProcessGrid::Group group = grid.group(axis);
  std::unique_ptr<Communicator> ranks = world.split_axis(axis, group.color);
  check(ranks->rank() == group.rank && ranks->size() == group.size,
        "an axis of the grid: ranks are not where the grid says");
  // A stage in the middle has taken part in the split for the sake of the others.
  if (group.size == 1) return std::make_unique<OneRank>(world.device());
  return ranks;
}

size_t elements_of(Axis axis, const ProcessGrid& grid) {
  return grid.size(axis) == 1 ? 0 : most_staging_elements(grid.size(axis));
}

}  // namespace

GridGroups::GridGroups(Communicator& world, const ProcessGrid& grid) {
  check(world.size() == grid.world_size() && world.rank() == grid.rank,
        "the grid is not that of these ranks");
  data_ = group_on(Axis::data, world, grid);
  tensor_ = group_on(Axis::tensor, world, grid);
  activations_ = group_on(Axis::pipeline, world, grid);
  gradients_ = group_on(Axis::pipeline, world, grid);
  embedding_ = group_on(Axis::embedding, world, grid);

  const TensorView area = world.staging_area();
  if (area.empty()) return;
  world.use_staging({});
  Communicator* const groups[] = {data_.get(), tensor_.get(), embedding_.get()};
  size_t first = 0;
  for (size_t i = 0; i < std::size(groups); ++i) {
    const size_t elements = elements_of(kSummingAxes[i], grid);
    groups[i]->use_staging(area.elements(first, {elements}));
    first += elements;
  }
}

size_t GridGroups::staging_elements(const ProcessGrid& grid) {
  size_t elements = 0;
  for (Axis axis : kSummingAxes) elements += elements_of(axis, grid);
  return elements;
}

}  // namespace ladder
