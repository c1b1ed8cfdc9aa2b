// The executor: it carries out a stage's actions in the order of the schedule, on several chunks
// and with backward in halves.
#pragma once

#include <array>
#include <vector>

#include "common/comm/grid_groups.h"
#include "common/schedule/placement.h"
#include "common/schedule/schedule.h"
#include "common/train/pipeline_report.h"
#include "common/train/ranks.h"
#include "lessons/16_pipeline_schedules/chunks.h"

namespace ladder {

// The seconds of a stage's work in so many steps, and of the part of it that is the classifier's.
// `message` is the shortest receive: one that found its message waiting.
struct ChunkTimes {
  StageTimes stage;
  double classifier = 0, message = 0, steps = 0;
};

// ChunkPipeline is one stage of a pipeline, like lesson 08's Pipeline. What differs: a message
// takes the link that its kind, its direction and its sender have (link_of), or is a copy if both
// its parts are here; gradients are sent from a buffer of their own.
class ChunkPipeline {
 public:
  // All must outlive this object. `runner` has a slot for each that the schedule names.
  ChunkPipeline(const TrainerContext& context, const ChunkLayouts& layouts,
                const ChunkPlacement& placement, const StageSchedule& schedule,
                ChunkRunner& runner);

  // What run() needs to know of a step besides the schedule.
  struct Step {
    int64_t number;
    double token_weight;  // the weight of one token's loss
    TensorView gradients;
  };
  // Runs all actions of the schedule. It adds the gradients of all micro-batches to the gradients
  // and the losses to the runner's total.
  void run(const Step& step);
  // Runs sequences of the validation split forward, and adds their losses.
  void evaluate(size_t batch, size_t num_sequences);

  // Returns this stage's times, summed over all steps since the second one.
  const ChunkTimes& times() const { return times_; }

 private:
  void run_action(const Action& action, const Step& step);
  void work(const Action& action, const Step& step);
  void reduce_embedding(TensorView gradients);
  void recv(const Action& action, TensorView buffer);
  Work send(const Action& action, ConstTensorView buffer);
  // Returns the slot in which a chunk of this stage has the micro-batch.
  size_t& slot_of(size_t chunk, size_t micro_batch) { return slots_[chunk][micro_batch]; }

  TrainerContext context_;
  GridGroups& groups_;
  const ChunkLayouts& layouts_;
  ChunkPlacement placement_;
  size_t stage_;
  const StageSchedule& schedule_;
  ChunkRunner& runner_;
  std::vector<std::vector<size_t>> slots_;  // by chunk and micro-batch
  std::vector<Work> activation_sent_;       // by slot
  std::array<Work, 2> gradient_sent_;       // to earlier stages, to later ones
  ChunkTimes times_;
  bool is_first_step_ = true;
};

}  // namespace ladder
