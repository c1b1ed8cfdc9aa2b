#include "lessons/08_pipeline_parallel/pipeline.h"

#include "kernels/runtime/clock.h"

namespace ladder {

void Pipeline::run(const Step& step) {
  Stream& stream = replica_.context.stream;
  const auto begin = std::chrono::steady_clock::now();
  size_t last_backward = 0;
  for (size_t i = 0; i < schedule_.size(); ++i) {
    if (schedule_[i].kind == ActionKind::backward) last_backward = i;
  }
  for (size_t i = 0; i < schedule_.size(); ++i) run_action(schedule_[i], step, i == last_backward);
  activation_sent_.wait(stream);
  gradient_sent_.wait(stream);
  times_.all += seconds_since(begin);
  if (is_first_step_) times_ = {};  // it touches memory for the first time
  is_first_step_ = false;
}

void Pipeline::run_action(const Action& action, const Step& step, bool is_last_backward) {
  Stream& stream = replica_.context.stream;
  MicroBatch& slot = replica_.slots[action.slot];
  const auto& [batch, activations] = slot;
  const auto begin = std::chrono::steady_clock::now();
  switch (action.kind) {
    case ActionKind::recv_activation:
      return recv(groups_.activations(), activations.input(), action.peer);
    case ActionKind::forward: {
      const size_t rows = replica_.context.config.micro_batch_size;
      const Hooks hooks = replica_.traced({});
      forward(slot, Split::train, step.number, step.first_row + action.micro_batch * rows, hooks);
      if (replica_.layout.has_classifier()) {
        replica_.model.classify(stream, activations, replica_.workspace, batch.targets(),
                                step.loss_scale, hooks);
        replica_.losses.add(replica_.workspace.losses(activations));
      }
      times_.forward += seconds_since(begin);
      return;
    }
    case ActionKind::send_activation:
      activation_sent_.wait(stream);
      activation_sent_ = send(groups_.activations(), activations.output(), action.peer);
      return;
    case ActionKind::recv_gradient:
      gradient_sent_.wait(stream);  // the buffer is the same
      return recv(groups_.gradients(), replica_.workspace.d_residual(activations), action.peer);
    case ActionKind::backward:
      gradient_sent_.wait(stream);
      replica_.model.backward(stream, activations, replica_.workspace, batch.tokens(),
                              replica_.traced(is_last_backward ? step.last_backward : Hooks()));
      times_.backward += seconds_since(begin);
      return;
    case ActionKind::send_gradient:
      gradient_sent_ =
          send(groups_.gradients(), replica_.workspace.d_residual(activations), action.peer);
      return;
    case ActionKind::reduce_embedding:
      return step.reduce_embedding();
  }
}

void Pipeline::forward(MicroBatch& slot, Split split, int64_t step, size_t first_row,
                       const Hooks& hooks) {
  // Between the first stage and the last nobody looks at tokens.
  if (replica_.layout.is_token_embedding(0)) slot.batch.load(split, step, first_row);
  replica_.model.forward(replica_.context.stream, slot.activations, replica_.workspace,
                         slot.batch.tokens(), hooks);
}

void Pipeline::evaluate(int64_t batch, size_t first_row, size_t num_rows) {
  const size_t stage = groups_.activations().rank(), num_stages = groups_.activations().size();
  MicroBatch& slot = replica_.slots[0];
  Stream& stream = replica_.context.stream;
  for (size_t row = 0; row < num_rows; row += replica_.context.config.micro_batch_size) {
    if (stage > 0) recv(groups_.activations(), slot.activations.input(), stage - 1);
    forward(slot, Split::validation, batch, first_row + row, {});
    if (stage + 1 < num_stages) {
      send(groups_.activations(), slot.activations.output(), stage + 1).wait(stream);
    } else {
      replica_.model.evaluate(stream, slot.activations, replica_.workspace, slot.batch.targets());
      replica_.losses.add(replica_.workspace.losses(slot.activations));
    }
  }
}

void Pipeline::recv(Communicator& group, TensorView buffer, size_t from) {
  Stream& stream = replica_.context.stream;
  group.recv(stream, buffer, from, {.purpose = Purpose::activation}).wait(stream);
}

Work Pipeline::send(Communicator& group, ConstTensorView buffer, size_t to) {
  return group.send(replica_.context.stream, buffer, to,
                    {.purpose = Purpose::activation, .background = true});
}

void reduce_embedding(Replica& replica, TensorView gradient) {
  Stream& stream = replica.context.stream;
  replica.context.groups->embedding()
      .all_reduce(stream, gradient, {.purpose = Purpose::gradient})
      .wait(stream);
}

Copies embedding_copies(GridGroups& groups) {
  return {groups.embedding(),
          [](const Parameter& parameter) { return parameter.name == "wte.weight"; }};
}

}  // namespace ladder
