// The executor: it carries out a stage's actions, in the order of the schedule.
#pragma once

#include "common/comm/grid_groups.h"
#include "common/pipeline/stage_timer.h"
#include "common/train/trainer/model_runner.h"
#include "common/train/trainer/ranks.h"

namespace ladder {

// Pipeline is one stage of a pipeline. It sends in the background, and waits for what it receives.
// Activations and gradients have a communicator each, so that neither waits for the other. It never
// relies on buffers between ranks (common/schedule/simulate.h finds schedules that would hang).
class Pipeline {
 public:
  // `model` runs this stage and has a buffer (activation buffer) for each that the schedule names.
  // All must outlive this.
  Pipeline(const TrainerContext& context, const Layout& layout, ModelRunner& model,
           const StageSchedule& schedule)
      : context_(context),
        groups_(*context.ranks->groups),
        layout_(layout),
        model_(model),
        schedule_(schedule),
        timer_(context.stream) {}

  // What run() needs to know of a step besides the schedule.
  struct Step {
    int64_t number;
    double token_weight;   // the weight of one token's loss
    TensorView gradients;  // the flat buffer: the first and the last stage sum units that both hold
  };
  // Runs all actions of the schedule. It adds the gradients of all micro-batches to the gradients
  // and, on the last stage, their losses to the model's total.
  void run(const Step& step);
  // Runs sequences of the validation split forward, and adds their losses on the last stage.
  void evaluate(size_t batch, size_t num_sequences);

  // Returns this stage's times, summed over all steps since the second one. The host waits for the
  // last step.
  const StageTimes& times() { return timer_.times(); }

 private:
  void run_action(const Action& action, const Step& step);
  void forward(Split split, int64_t step, size_t first_sequence, size_t buffer);
  void recv(Communicator& group, TensorView buffer, size_t from);
  Work send(Communicator& group, ConstTensorView buffer, size_t to);

  TrainerContext context_;
  GridGroups& groups_;
  const Layout& layout_;
  ModelRunner& model_;
  const StageSchedule& schedule_;
  Work activation_sent_, gradient_sent_;
  StageTimer timer_;
};

}  // namespace ladder
