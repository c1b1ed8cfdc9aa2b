// The executor: runs what a schedule says a stage does.
#pragma once

#include "common/comm/grid_groups.h"
#include "common/train/model_runner.h"
#include "common/train/pipeline_report.h"
#include "common/train/ranks.h"

namespace ladder {

// One stage of a pipeline. Sends go in the background; what is received is waited for. Activations
// and gradients have a communicator each, so neither waits for the other, and no order of sends and
// receives relies on buffers in between (common/schedule/simulate.h is the proof's model of this).
class Pipeline {
 public:
  // `model` runs this stage and has a slot for each that the schedule names. All must outlive this.
  Pipeline(const TrainerContext& context, const Layout& layout, ModelRunner& model,
           const StageSchedule& schedule)
      : context_(context),
        groups_(*context.ranks->groups),
        layout_(layout),
        model_(model),
        schedule_(schedule) {}

  // What a step is apart from its schedule.
  struct Step {
    int64_t number;
    size_t first_sequence;  // of the global batch, that this pipeline runs
    double token_weight;    // of one token's loss
    Hooks last_backward;    // for the last micro-batch's backward, in which gradients become final
    // The gradient of a unit of which the first and the last stage have a copy each, to be summed
    // over the two: the unit is used at both ends, and both copies get the same update.
    std::function<TensorView(size_t unit)> shared_gradient;
  };
  // Adds the gradients of all micro-batches, and on the last stage their losses.
  void run(const Step& step);
  // Adds the losses of sequences of the validation split on the last stage, forward alone.
  void evaluate(size_t batch, size_t first_sequence, size_t num_sequences);

  // Since the second step.
  const StageTimes& times() const { return times_; }

 private:
  void run_action(const Action& action, const Step& step, bool is_last_backward);
  void forward(Split split, int64_t step, size_t first_sequence, size_t slot);
  void recv(Communicator& group, TensorView buffer, size_t from);
  Work send(Communicator& group, ConstTensorView buffer, size_t to);

  TrainerContext context_;
  GridGroups& groups_;
  const Layout& layout_;
  ModelRunner& model_;
  const StageSchedule& schedule_;
  Work activation_sent_, gradient_sent_;
  StageTimes times_;
  bool is_first_step_ = true;
};

}  // namespace ladder
