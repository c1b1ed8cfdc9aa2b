#include "common/pipeline/executor.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/train/report/report.h"

namespace ladder {
namespace {

// Returns for each action whether it is the last of its kind on its chunk.
std::vector<bool> last_of_kinds(const StageSchedule& schedule) {
  std::vector<bool> is_last(schedule.size());
  std::set<std::pair<ActionKind, size_t>> seen;
  for (size_t i = schedule.size(); i-- > 0;) {
    is_last[i] = seen.insert({schedule[i].kind, schedule[i].chunk}).second;
  }
  return is_last;
}

}  // namespace

PipelineExecutor::PipelineExecutor(const TrainerContext& context, const PipelineStage& stage,
                                   ModelRunner& model)
    : context_(context),
      groups_(*context.ranks->groups),
      stage_(stage),
      schedule_(stage.schedule()),
      model_(model),
      is_last_(last_of_kinds(schedule_)),
      buffers_(
          stage.chunks.size(),
          std::vector<size_t>(context.config.num_micro_batches(context.ranks->grid.data_size))),
      activation_sent_(stage.num_buffers()),
      timer_(context.stream) {
  for (const Use& use : training_walk(stage.layout)) {
    if (use.gradient_is_final) order_.push_back(use.unit);
  }
  for (const bool to_later : {false, true}) {
    if (!stage.sends_gradients(to_later)) continue;
    outgoing_[to_later] = Tensor(context.device_memory, Category::workspace,
                                 model.d_residual().dtype(), model.d_residual().shape());
  }
}

void PipelineExecutor::run(const Step& step) {
  timer_.begin_step();
  num_final_ = 0;
  chunks_left_.assign(stage_.layout.units().size(), 0);
  for (size_t chunk = 0; chunk < buffers_.size(); ++chunk) {
    for (size_t unit : model_.units(chunk)) ++chunks_left_[unit];
  }
  timer_.time(&StageTimes::all, [&] {
    for (size_t i = 0; i < schedule_.size(); ++i) run_action(i, step);
    for (Work& work : activation_sent_) work.wait(context_.stream);
    for (Work& work : gradient_sent_) work.wait(context_.stream);
  });
}

void PipelineExecutor::run_action(size_t index, const Step& step) {
  Stream& stream = context_.stream;
  const Action& action = schedule_[index];
  const auto& [kind, micro_batch, buffer, peer, chunk] = action;
  const bool is_local = peer == stage_.index;
  switch (kind) {
    case ActionKind::recv_activation: {
      const TensorView input = model_.input(buffer, chunk);
      activation_sent_[buffer].wait(stream);
      if (!is_local) return timed_recv(action, input);
      return copy(stream, input, model_.output(buffer_of(chunk - 1, micro_batch), chunk - 1));
    }
    case ActionKind::send_activation:
      if (!is_local)
        activation_sent_[buffer] = send(link(action), model_.output(buffer, chunk), peer);
      return;
    case ActionKind::recv_gradient:
      if (!is_local) return timed_recv(action, model_.d_residual());
      return copy(stream, model_.d_residual(), model_.output(buffer, chunk));
    case ActionKind::send_gradient:
      return send_gradient(action);
    case ActionKind::reduce_embedding:
      for (size_t unit : stage_.layout.shared_units()) {
        groups_[Axis::embedding]
            .all_reduce(stream, step.shared_gradient(unit), {.purpose = Purpose::gradient})
            .wait(stream);
      }
      return;
    case ActionKind::forward:
      return timer_.time(&StageTimes::forward, [&] { forward(action, step); });
    case ActionKind::backward:
    case ActionKind::backward_input:
      return timer_.time(&StageTimes::backward, [&] { backward(index, step); });
    case ActionKind::backward_weight:
      return timer_.time(&StageTimes::weight, [&] { backward(index, step); });
  }
}

void PipelineExecutor::send_gradient(const Action& action) {
  Stream& stream = context_.stream;
  const auto& [kind, micro_batch, buffer, peer, chunk] = action;
  if (peer == stage_.index) {
    const TensorView before = model_.output(buffer_of(chunk - 1, micro_batch), chunk - 1);
    return copy(stream, before, model_.d_residual());
  }
  const bool to_later = peer > stage_.index;
  gradient_sent_[to_later].wait(stream);
  copy(stream, outgoing_[to_later], model_.d_residual());
  gradient_sent_[to_later] = send(link(action), outgoing_[to_later], peer);
}

void PipelineExecutor::forward(const Action& action, const Step& step) {
  const auto& [kind, micro_batch, buffer, peer, chunk] = action;
  buffer_of(chunk, micro_batch) = buffer;
  activation_sent_[buffer].wait(context_.stream);  // by a chunk without backward
  if (model_.needs_tokens(chunk)) {
    const size_t before = micro_batch * context_.config.micro_batch_size;
    model_.load(Split::train, step.number, step.first_sequence + before, buffer);
  }
  model_.forward({}, buffer, chunk);
  if (model_.has_classifier(chunk)) {
    timer_.time(&StageTimes::classifier,
                [&] { model_.classify(step.token_weight, {}, buffer, chunk); });
  }
}

void PipelineExecutor::backward(size_t index, const Step& step) {
  const auto& [kind, micro_batch, buffer, peer, chunk] = schedule_[index];
  // The gradient has come back, so the activations have arrived.
  activation_sent_[buffer].wait(context_.stream);
  Hooks hooks;
  if (is_last_[index]) hooks.done = [&](const Use& use) { finish(use, step); };
  model_.backward(hooks, buffer, chunk,
                  kind == ActionKind::backward         ? BackwardHalf::both
                  : kind == ActionKind::backward_input ? BackwardHalf::input
                                                       : BackwardHalf::weight);
}

void PipelineExecutor::finish(const Use& use, const Step& step) {
  if (!use.gradient_is_final) return;
  --chunks_left_[use.unit];
  while (num_final_ < order_.size() && chunks_left_[order_[num_final_]] == 0) {
    if (step.gradient_is_final) step.gradient_is_final(order_[num_final_]);
    ++num_final_;
  }
}

void PipelineExecutor::evaluate(size_t batch, size_t first_sequence, size_t num_sequences) {
  Stream& stream = context_.stream;
  const ChunkPlacement& placement = stage_.plan->placement;
  const size_t micro_batch_size = context_.config.micro_batch_size;
  for (size_t done = 0; done < num_sequences; done += micro_batch_size) {
    for (size_t chunk = 0; chunk < placement.num_chunks; ++chunk) {
      // A chunk uses buffer 0 after the one before it, whose output waits in d_residual if it is
      // the input.
      const size_t at = placement.virtual_stage_at(stage_.index, chunk);
      Action action = {.kind = ActionKind::recv_activation, .chunk = chunk};
      if (at > 0) action.peer = placement.chunk_of(at - 1).stage;
      if (at > 0 && action.peer == stage_.index) {
        copy(stream, model_.input(0, chunk), model_.d_residual());
      } else if (at > 0) {
        recv(link(action), model_.input(0, chunk), action.peer).wait(stream);
      }
      if (model_.needs_tokens(chunk)) {
        model_.load(Split::validation, static_cast<int64_t>(batch), first_sequence + done, 0);
      }
      model_.forward({}, 0, chunk);
      if (model_.has_classifier(chunk)) model_.evaluate({}, 0, chunk);
      if (at + 1 == placement.num_virtual_stages()) continue;
      action.kind = ActionKind::send_activation;
      action.peer = placement.chunk_of(at + 1).stage;
      if (action.peer == stage_.index) {
        copy(stream, model_.d_residual(), model_.output(0, chunk));
      } else {
        send(link(action), model_.output(0, chunk), action.peer).wait(stream);
      }
    }
  }
}

Communicator& PipelineExecutor::link(const Action& message) {
  if (stage_.plan->links == Links::many) {
    return groups_.pipeline_link(link_of(stage_.index, message));
  }
  return moves_gradient(message.kind) ? groups_.pipeline_gradients() : groups_[Axis::pipeline];
}

void PipelineExecutor::timed_recv(const Action& action, TensorView buffer) {
  timer_.time(&StageTimes::message,
              [&] { recv(link(action), buffer, action.peer).wait(context_.stream); });
}

Work PipelineExecutor::recv(Communicator& link, TensorView buffer, size_t stage) {
  return link.recv(context_.stream, buffer, stage, {.purpose = Purpose::activation});
}

Work PipelineExecutor::send(Communicator& link, ConstTensorView buffer, size_t stage) {
  return link.send(context_.stream, buffer, stage,
                   {.purpose = Purpose::activation, .background = true});
}

std::string PipelineExecutor::report() {
  const std::vector<StageTimes> stages = times_of_stages(groups_[Axis::pipeline], timer_.times());
  if (stage_.index > 0 || stages[0].steps == 0) return {};
  return bubble_text(*stage_.plan, stages) + times_text(stages);
}

std::string PipelineExecutor::times_text(const std::vector<StageTimes>& stages) const {
  StageTimes sum;
  double message = 0;  // the shortest of all; stages that receive nothing have none
  for (const StageTimes& stage : stages) {
    sum.forward += stage.forward - stage.classifier;
    sum.backward += stage.backward;
    sum.weight += stage.weight;
    sum.classifier += stage.classifier;
    if (message == 0 || (stage.message > 0 && stage.message < message)) message = stage.message;
  }
  const double runs = stages[0].steps * static_cast<double>(buffers_[0].size());
  const auto ms = [&](double seconds) { return 1000 * seconds / runs; };
  const double input = ms(sum.backward), weight = ms(sum.weight);
  return format("  for --schedule auto: --times %.3g,%.3g,%.3g,%.3g,%.2g\n", ms(sum.forward),
                weight > 0 ? input : input / 2, weight > 0 ? weight : input / 2, ms(sum.classifier),
                1000 * message);
}

}  // namespace ladder
