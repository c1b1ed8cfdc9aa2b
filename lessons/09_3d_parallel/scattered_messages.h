// Messages between stages of which each rank of a tensor group carries a part.
#pragma once

#include "common/pipeline/executor.h"

namespace ladder {

// In ScatteredPipeline the t ranks of a tensor group, which all have the same R C elements to send
// to the next stage, send R C / t each. There each receives its part, and an all_gather over the
// tensor group puts them together. So 1/t of the bytes go from node to node, and the rest stays in
// the node, if tensor groups do. [Narayanan21, section 4.1: scatter/gather]
//
// The bits that arrive are those that were sent.
class ScatteredPipeline final : public PipelineExecutor {
 public:
  using PipelineExecutor::PipelineExecutor;

 private:
  // Waits for the part before it gathers, so that is the wait of the pipeline.
  Work recv(Communicator& link, TensorView buffer, size_t stage) override;
  Work send(Communicator& link, ConstTensorView buffer, size_t stage) override;
  Communicator& tensor_group() { return (*context_.ranks->groups)[Axis::tensor]; }
};

}  // namespace ladder
