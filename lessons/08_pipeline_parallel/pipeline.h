// The executor: runs what a schedule says a stage does.
#pragma once

#include "common/comm/grid_groups.h"
#include "common/train/pipeline_report.h"
#include "lessons/01_single_gpu/replica.h"
#include "lessons/02_ddp/data_parallel.h"

namespace ladder {

// One stage of a pipeline. Sends go in the background; what is received is waited for. Activations
// and gradients have a communicator each, so neither waits for the other, and no order of sends and
// receives relies on buffers in between (common/schedule/simulate.h is the proof's model of this).
class Pipeline {
 public:
  // `replica` has a slot for each that the schedule names. All must outlive this.
  Pipeline(Replica& replica, GridGroups& groups, const StageSchedule& schedule)
      : replica_(replica), groups_(groups), schedule_(schedule) {}

  // What a step is beside its schedule.
  struct Step {
    int64_t number;
    size_t first_row;     // of the global batch, that this pipeline runs
    double loss_scale;    // dloss of one token
    Hooks last_backward;  // for the last micro-batch's backward, in which gradients become final
    std::function<void()> reduce_embedding;
  };
  // Adds the gradients of all micro-batches, and on the last stage their losses.
  void run(const Step& step);
  // Adds the losses of micro-batches of the validation split on the last stage, forward alone.
  void evaluate(int64_t batch, size_t first_row, size_t num_rows);

  // Since the second step.
  const StageTimes& times() const { return times_; }

 private:
  void run_action(const Action& action, const Step& step, bool is_last_backward);
  void forward(MicroBatch& slot, Split split, int64_t step, size_t first_row, const Hooks& hooks);
  void recv(Communicator& group, TensorView buffer, size_t from);
  Work send(Communicator& group, ConstTensorView buffer, size_t to);

  Replica& replica_;
  GridGroups& groups_;
  const StageSchedule& schedule_;
  Work activation_sent_, gradient_sent_;
  StageTimes times_;
  bool is_first_step_ = true;
};

// Sums the two gradients of the token embedding, `gradient` on this rank, over the first stage and
// the last: it is used at both ends of the model, and both copies get the same update. Returns when
// it is done.
void reduce_embedding(Replica& replica, TensorView gradient);

// The token embedding of the first stage and the last, for check_copies().
Copies embedding_copies(GridGroups& groups);

}  // namespace ladder
