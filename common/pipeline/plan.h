// The plan of a pipeline: which model chunks each stage holds, and what it does when.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/model/layout.h"
#include "common/schedule/placement.h"
#include "common/schedule/simulate.h"
#include "common/train/trainer/config.h"

namespace ladder {

// The plan of all stages, which is the same on all ranks. It is made once in a run, and shared by
// the ranks of a process: with 35 stages and 280 micro-batches in three chunks the lists take 9 MB.
struct PipelinePlan {
  ChunkPlacement placement;            // of the model chunks on the stages
  std::vector<ModelPartition> chunks;  // the model chunks, in the order of the model
  Schedule schedule;                   // what each stage does, and when
  std::string name;                    // of the schedule
  Links links = Links::few;

  // Returns all operations of the chunks that a stage holds.
  ModelPartition operations_of(size_t stage) const;
  // Sets the schedule to one with this work (common/schedule/build.h).
  // REQUIRES: the other members are set.
  void complete(const ModelConfig& config, const Schedule& work);
  // Leaves out of the schedule the backward of chunks before which, and in which, nothing is
  // trained. Their stages keep no activations for it.
  void end_backward(const ModelDescription& model);
};

// A rank's place in the pipeline: its stage, and what it has there.
struct PipelineStage {
  // `split` says how other ranks split the stage's tensors and tokens, and `num_replicas` ranks
  // have the same part of the model.
  PipelineStage(std::shared_ptr<const PipelinePlan> plan, const ModelConfig& config, size_t index,
                const ModelPartition& split = {}, size_t num_replicas = 1);

  const StageSchedule& schedule() const { return plan->schedule[index]; }
  // Returns how many activation buffers the schedule names.
  size_t num_buffers() const { return ladder::num_buffers(schedule()); }
  // Returns whether the stage sends gradients to later stages, or to earlier ones.
  bool sends_gradients(bool to_later) const;

  std::shared_ptr<const PipelinePlan> plan;
  size_t index;
  Layout layout;               // of all that the stage holds
  std::vector<Layout> chunks;  // by the number of the model chunk on the stage
};

}  // namespace ladder
