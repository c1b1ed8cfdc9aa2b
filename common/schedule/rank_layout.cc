#include "common/schedule/rank_layout.h"

#include "common/model/divisible.h"
#include "common/schedule/cut.h"

namespace ladder {

Layout rank_layout(const ModelConfig& config, const ProcessGrid& grid) {
  const auto require = [&](bool holds, const auto&... why) {
    if (!holds) throw UserError(concat(layout_text(grid), ": ", why...));
  };
  require(grid.rank < grid.world_size(), "has ranks 0 to ", grid.world_size() - 1, ", no rank ",
          grid.rank);
  require(grid.context_size == 1, "ranks of a context axis do not divide the model; leave it out");
  check_split(config, grid.tensor_size, layout_text(grid));
  const ModelDescription model = describe(config);
  size_t most_stages = 0;
  for (const Operation& operation : model.operations) most_stages += operation.starts_stage;
  require(grid.pipeline_size <= most_stages, "the model can be cut into at most ",
          counted(most_stages, "stage"));
  ModelPartition part = cut_evenly(model, grid.pipeline_size)[grid.group_rank(Axis::pipeline)];
  part.tensor_rank = grid.group_rank(Axis::tensor);
  part.tensor_size = grid.tensor_size;
  return Layout(model, grid.data_size, part);
}

}  // namespace ladder
