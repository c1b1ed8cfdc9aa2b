// The groups that a rank belongs to where ranks are arranged along several axes.
#pragma once

#include <cstddef>
#include <memory>

#include "common/comm/communicator.h"
#include "common/comm/process_grid.h"

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

  Communicator& data() { return *data_; }
  Communicator& tensor() { return *tensor_; }
  // Between pipeline stages; the rank in both is the stage.
  Communicator& activations() { return *activations_; }
  Communicator& gradients() { return *gradients_; }
  // The first stage (rank 0) and the last (rank 1); in the middle a group of one.
  Communicator& embedding() { return *embedding_; }

  // Elements of the areas through which sums on the axes go where ranks share no memory: one for
  // each, since they work at the same time.
  static size_t staging_elements(const ProcessGrid& grid);

 private:
  std::unique_ptr<Communicator> data_, tensor_, activations_, gradients_, embedding_;
};

}  // namespace ladder
