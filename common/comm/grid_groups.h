// The groups that a rank belongs to where ranks are arranged along several axes.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "common/comm/communicator.h"
#include "common/grid/process_grid.h"

namespace ladder {

// One communicator for each axis of the grid, and for the pipeline two, so that what goes down the
// stages never queues behind what goes up. Each has its own order of calls, its own worker thread
// and, on a device, its own stream: operations on different axes run at the same time. What they
// communicate counts in the ledger of `world`, by axis.
//
// A group of one rank counts nothing.
class GridGroups {
 public:
  // Collective over `world`, which must outlive the groups. The area that `world` was given by
  // use_staging(), if any, is shared out between the axes that sum and `world` has it no more.
  // REQUIRES: the grid's ranks are those of `world`; the area is empty or has staging_elements().
  GridGroups(Communicator& world, const ProcessGrid& grid);

  // The group along an axis: groups[Axis::tensor]. Of the pipeline it is the one for activations,
  // where the rank is the stage; on `embedding` the first stage is rank 0 and the last rank 1.
  // REQUIRES: one of kGridAxes, or embedding.
  Communicator& operator[](Axis axis) { return *groups_.at(axis); }
  // The pipeline's other group, for gradients.
  Communicator& pipeline_gradients() { return *pipeline_gradients_; }

  // Elements of the areas through which sums on the axes go where ranks share no memory: one for
  // each, since they work at the same time.
  static size_t staging_elements(const ProcessGrid& grid);

 private:
  std::map<Axis, std::unique_ptr<Communicator>> groups_;
  std::unique_ptr<Communicator> pipeline_gradients_;
};

}  // namespace ladder
