#include "common/comm/grid_groups.h"

#include <algorithm>
#include <array>

#include "common/comm/one_rank.h"
#include "common/comm/staging.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

// Returns the axes on which ranks sum. Ranks along the pipeline or the context only send and
// receive.
std::vector<Axis> summing_axes(const ProcessGrid& grid) {
  if (grid.shard_size > 0) return {Axis::shard, Axis::replica};
  return {grid.replicas(), Axis::tensor, Axis::embedding, Axis::expert_data};
}

constexpr std::array kAxes = {Axis::data,     Axis::context, Axis::tensor,
                              Axis::pipeline, Axis::expert,  Axis::expert_data,
                              Axis::shard,    Axis::replica, Axis::data_context};

// Returns whether every rank is a group of one on this axis. If experts are not divided, or
// sequences are not shared, the ranks that hold the same are those of the data axis, which has its
// group.
bool is_alone(Axis axis, const ProcessGrid& grid) {
  return grid.size(axis) == 1 || (axis == Axis::expert_data && grid.expert_size == 1) ||
         (axis == Axis::data_context && grid.context_size == 1);
}

std::unique_ptr<Communicator> group_on(Axis axis, Communicator& world, const ProcessGrid& grid) {
  const auto alone = [&] {
    return std::make_unique<Communicator>(std::make_unique<OneRank>(world.device()));
  };
  if (is_alone(axis, grid)) return alone();
  const ProcessGrid::Group group = grid.group(axis);
  std::unique_ptr<Communicator> ranks = world.split_axis(axis, group.color);
  check(ranks->rank() == group.rank && ranks->size() == group.size,
        "an axis of the grid: ranks are not where the grid says");
  // A stage in the middle has no embedding to sum. It took part in the split because a split is
  // collective.
  if (group.size == 1) return alone();
  return ranks;
}

size_t elements_of(Axis axis, const ProcessGrid& grid) {
  return is_alone(axis, grid) ? 0 : most_staging_elements(grid.size(axis));
}

}  // namespace

GridGroups::GridGroups(Communicator& world, const ProcessGrid& grid) {
  check(world.size() == grid.world_size() && world.rank() == grid.rank,
        "the grid is not that of these ranks");
  for (Axis axis : kAxes) groups_[axis] = group_on(axis, world, grid);
  pipeline_gradients_ = group_on(Axis::pipeline, world, grid);
  for (size_t link = 0; link < grid.pipeline_links; ++link) {
    pipeline_links_.push_back(group_on(Axis::pipeline, world, grid));
  }
  groups_[Axis::embedding] = group_on(Axis::embedding, world, grid);

  const TensorView area = world.staging_area();
  if (area.empty()) return;
  world.use_staging({});
  size_t first = 0;
  for (Axis axis : summing_axes(grid)) {
    const size_t elements = elements_of(axis, grid);
    (*this)[axis].use_staging(area.elements(first, {elements}));
    first += elements;
  }
}

size_t GridGroups::staging_elements(const ProcessGrid& grid) {
  size_t elements = 0;
  for (Axis axis : summing_axes(grid)) elements += elements_of(axis, grid);
  return elements;
}

}  // namespace ladder
