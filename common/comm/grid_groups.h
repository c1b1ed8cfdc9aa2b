// The groups that a rank belongs to where ranks are arranged along several axes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "common/comm/communicator.h"
#include "common/grid/process_grid.h"

namespace ladder {

// GridGroups has one communicator for each axis of the grid. The pipeline has two, so that
// activations never wait for gradients, which travel the other way, and one for each of the grid's
// links (ProcessGrid::pipeline_links). Each communicator has its own order of calls, its own worker
// thread and, on a device, its own stream, so operations on different axes run at the same time.
// The ledger of `world` counts them all, by axis; a group of one rank counts nothing.
class GridGroups {
 public:
  // Makes the groups. If `world` has a staging area (use_staging()), the area is divided among the
  // axes on which ranks sum, and `world` has it no more. `world` must outlive the groups.
  // Collective over `world`. REQUIRES: the grid's ranks are those of `world`; the area is empty or
  // has staging_elements().
  GridGroups(Communicator& world, const ProcessGrid& grid);

  // Returns the group along an axis, as in groups[Axis::tensor]. groups[Axis::pipeline] is the one
  // for activations, and its ranks are the stages. In groups[Axis::embedding] the first stage is
  // rank 0 and the last stage is rank 1. groups[Axis::expert_data] is a group of one if experts are
  // not divided, and groups[Axis::data_context] if sequences are not shared: the data axis then has
  // the ranks that hold the same. groups[Axis::shard] and groups[Axis::replica] are groups of one
  // if the data axis is not divided into them; if it is, these two share the staging area.
  // REQUIRES: any axis but world.
  Communicator& operator[](Axis axis) { return *groups_.at(axis); }
  // Returns the pipeline's other group, which is for gradients.
  Communicator& pipeline_gradients() { return *pipeline_gradients_; }
  // Returns the pipeline's group for a link, one of ProcessGrid::pipeline_links.
  Communicator& pipeline_link(size_t link) { return *pipeline_links_.at(link); }

  // Returns how many elements a staging area for all axes needs (staging.h). Every axis on which
  // ranks sum gets a part of its own, since the axes work at the same time.
  static size_t staging_elements(const ProcessGrid& grid);

 private:
  std::map<Axis, std::unique_ptr<Communicator>> groups_;
  std::unique_ptr<Communicator> pipeline_gradients_;
  std::vector<std::unique_ptr<Communicator>> pipeline_links_;
};

}  // namespace ladder
