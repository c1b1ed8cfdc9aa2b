#include "lessons/16_pipeline_schedules/executor.h"

#include <algorithm>

#include "kernels/runtime/clock.h"

namespace ladder {

ChunkPipeline::ChunkPipeline(const TrainerContext& context, const ChunkLayouts& layouts,
                             const ChunkPlacement& placement, const StageSchedule& schedule,
                             ChunkRunner& runner)
    : context_(context),
      groups_(*context.ranks->groups),
      layouts_(layouts),
      placement_(placement),
      stage_(context.ranks->grid.place(Axis::pipeline)),
      schedule_(schedule),
      runner_(runner),
      slots_(placement.num_chunks, std::vector<size_t>(context.config.num_micro_batches(1))),
      activation_sent_(num_slots(schedule)) {}

void ChunkPipeline::run(const Step& step) {
  const auto begin = Clock::now();
  for (const Action& action : schedule_) run_action(action, step);
  for (Work& work : activation_sent_) work.wait(context_.stream);
  for (Work& work : gradient_sent_) work.wait(context_.stream);
  times_.stage.all += seconds_since(begin);
  ++times_.steps;
  if (is_first_step_) times_ = {};  // the first step is slower, since it touches new memory
  is_first_step_ = false;
}

void ChunkPipeline::run_action(const Action& action, const Step& step) {
  Stream& stream = context_.stream;
  const auto& [kind, micro_batch, slot, peer, chunk] = action;
  const bool is_local = peer == stage_;
  switch (kind) {
    case ActionKind::recv_activation: {
      const TensorView input = runner_.input(chunk, slot);
      if (!is_local) return recv(action, input);
      return copy(stream, input, runner_.output(chunk - 1, slot_of(chunk - 1, micro_batch)));
    }
    case ActionKind::send_activation:
      if (!is_local) activation_sent_[slot] = send(action, runner_.output(chunk, slot));
      return;
    case ActionKind::recv_gradient:
      if (!is_local) return recv(action, runner_.d_residual());
      return copy(stream, runner_.d_residual(), runner_.output(chunk, slot));
    case ActionKind::send_gradient: {
      if (is_local) {
        const TensorView before = runner_.output(chunk - 1, slot_of(chunk - 1, micro_batch));
        return copy(stream, before, runner_.d_residual());
      }
      const bool to_later = peer > stage_;
      gradient_sent_[to_later].wait(stream);
      copy(stream, runner_.outgoing(to_later), runner_.d_residual());
      gradient_sent_[to_later] = send(action, runner_.outgoing(to_later));
      return;
    }
    case ActionKind::reduce_embedding:
      return reduce_embedding(step.gradients);
    default:
      return work(action, step);
  }
}

void ChunkPipeline::work(const Action& action, const Step& step) {
  const auto& [kind, micro_batch, slot, peer, chunk] = action;
  const auto begin = Clock::now();
  if (kind == ActionKind::forward) {
    slot_of(chunk, micro_batch) = slot;
    if (runner_.needs_tokens(chunk)) {
      const size_t first = micro_batch * context_.config.micro_batch_size;
      runner_.load(Split::train, step.number, first, slot);
    }
    runner_.forward(chunk, slot);
    if (runner_.has_classifier(chunk)) {
      const auto classifier_begin = Clock::now();
      runner_.classify(chunk, slot, step.token_weight);
      times_.classifier += seconds_since(classifier_begin);
    }
    times_.stage.forward += seconds_since(begin);
    return;
  }
  // The gradient has come back, so the activations have arrived.
  activation_sent_[slot].wait(context_.stream);
  runner_.backward(chunk, slot,
                   kind == ActionKind::backward         ? BackwardHalf::both
                   : kind == ActionKind::backward_input ? BackwardHalf::input
                                                        : BackwardHalf::weight);
  double& time = kind == ActionKind::backward_weight ? times_.stage.weight : times_.stage.backward;
  time += seconds_since(begin);
}

void ChunkPipeline::reduce_embedding(TensorView gradients) {
  for (size_t unit : layouts_.stage.shared_units()) {
    groups_[Axis::embedding]
        .all_reduce(context_.stream, unit_in_flat(layouts_.stage, unit, gradients),
                    {.purpose = Purpose::gradient})
        .wait(context_.stream);
  }
}

void ChunkPipeline::evaluate(size_t batch, size_t num_sequences) {
  Stream& stream = context_.stream;
  const ChunkTimes times = times_;  // what is measured here does not count
  const size_t micro_batch_size = context_.config.micro_batch_size;
  for (size_t first = 0; first < num_sequences; first += micro_batch_size) {
    for (size_t chunk = 0; chunk < placement_.num_chunks; ++chunk) {
      // A chunk uses slot 0 after the one before it, whose output waits in d_residual if it is the
      // input.
      const size_t part = placement_.part_at(stage_, chunk);
      Action action = {.kind = ActionKind::recv_activation, .chunk = chunk};
      if (part > 0) action.peer = placement_.place_of(part - 1).stage;
      if (part > 0 && action.peer == stage_) {
        copy(stream, runner_.input(chunk, 0), runner_.d_residual());
      } else if (part > 0) {
        recv(action, runner_.input(chunk, 0));
      }
      if (runner_.needs_tokens(chunk)) {
        runner_.load(Split::validation, static_cast<int64_t>(batch), first, 0);
      }
      runner_.forward(chunk, 0);
      if (runner_.has_classifier(chunk)) runner_.evaluate(chunk, 0);
      if (part + 1 == placement_.num_parts()) continue;
      action.kind = ActionKind::send_activation;
      action.peer = placement_.place_of(part + 1).stage;
      if (action.peer == stage_) {
        copy(stream, runner_.d_residual(), runner_.output(chunk, 0));
      } else {
        send(action, runner_.output(chunk, 0)).wait(stream);
      }
    }
  }
  times_ = times;
}

void ChunkPipeline::recv(const Action& action, TensorView buffer) {
  const auto begin = Clock::now();
  groups_.pipeline_link(link_of(stage_, action))
      .recv(context_.stream, buffer, action.peer, {.purpose = Purpose::activation})
      .wait(context_.stream);
  const double seconds = seconds_since(begin);
  times_.message = times_.message == 0 ? seconds : std::min(times_.message, seconds);
}

Work ChunkPipeline::send(const Action& action, ConstTensorView buffer) {
  return groups_.pipeline_link(link_of(stage_, action))
      .send(context_.stream, buffer, action.peer,
            {.purpose = Purpose::activation, .background = true});
}

}  // namespace ladder
