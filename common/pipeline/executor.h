// The executor: it carries out a stage's actions in the order of the schedule, on several model
// chunks and with backward in halves.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "common/comm/grid_groups.h"
#include "common/pipeline/plan.h"
#include "common/pipeline/stage_timer.h"
#include "common/train/trainer/model_runner.h"
#include "common/train/trainer/ranks.h"

namespace ladder {

// PipelineExecutor is one stage of a pipeline, like lesson 08's Pipeline. What differs: a message
// takes the link that its kind, its direction and its sender have (link_of), if the plan has many
// links, or is a copy if both its chunks are here; gradients are sent from a buffer of their own,
// which it allocates.
class PipelineExecutor {
 public:
  // All must outlive this object. `model` runs the stage's chunks, and has an activation buffer for
  // each that the schedule names.
  PipelineExecutor(const TrainerContext& context, const PipelineStage& stage, ModelRunner& model);
  virtual ~PipelineExecutor() = default;

  // What run() needs to know of a step besides the schedule.
  struct Step {
    int64_t number;
    size_t first_sequence;  // the first sequence of the global batch that this pipeline runs
    double token_weight;    // the weight of one token's loss
    // Called for each unit of the stage when nothing in this step adds to its gradient any more:
    // with halves that is in a weight half, and with several chunks in the last one that has the
    // unit. Units come in the order of training_walk() of the whole stage, so one may come later
    // than it could. May be empty.
    std::function<void(size_t unit)> gradient_is_final;
    // Returns the gradient of a unit that the first and the last stage hold, which they sum.
    std::function<TensorView(size_t unit)> shared_gradient;
  };
  // Runs all actions of the schedule. It adds the gradients of all micro-batches to the gradients
  // and the losses to the model's total.
  void run(const Step& step);
  // Runs sequences of the validation split forward, and adds their losses.
  void evaluate(size_t batch, size_t first_sequence, size_t num_sequences);

  // Returns lines about the bubble and the times that were measured since the second step, for the
  // first stage to print. Collective over the stages.
  std::string report();

 protected:
  // Carry the residual stream, or its gradient, from and to another stage. Asynchronous.
  virtual Work recv(Communicator& link, TensorView buffer, size_t stage);
  virtual Work send(Communicator& link, ConstTensorView buffer, size_t stage);

  TrainerContext context_;

 private:
  void run_action(size_t index, const Step& step);
  void forward(const Action& action, const Step& step);
  void backward(size_t index, const Step& step);
  // Counts that a chunk adds no more to the unit's gradient, if this use is the last that does.
  void finish(const Use& use, const Step& step);
  void send_gradient(const Action& action);
  // Returns the flag that gives the search the times that were measured on all stages.
  std::string times_text(const std::vector<StageTimes>& stages) const;
  // Returns the group by which a message goes.
  Communicator& link(const Action& message);
  void timed_recv(const Action& action, TensorView buffer);
  // Returns the activation buffer in which a chunk of this stage has the micro-batch.
  size_t& buffer_of(size_t chunk, size_t micro_batch) { return buffers_[chunk][micro_batch]; }

  GridGroups& groups_;
  const PipelineStage& stage_;
  const StageSchedule& schedule_;
  ModelRunner& model_;
  std::array<Tensor, 2> outgoing_;   // gradients that are being sent: to earlier stages, to later
  std::vector<bool> is_last_;        // by action: whether it is the last of its kind and chunk
  std::vector<size_t> order_;        // units, in the order in which gradients become final
  std::vector<size_t> chunks_left_;  // by unit: the chunks that still add to its gradient
  size_t num_final_ = 0;             // so many units of order_ are final
  std::vector<std::vector<size_t>> buffers_;  // by chunk and micro-batch
  std::vector<Work> activation_sent_;         // by activation buffer
  std::array<Work, 2> gradient_sent_;         // to earlier stages, to later ones
  StageTimer timer_;
};

}  // namespace ladder
