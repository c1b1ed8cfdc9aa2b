#include "lessons/08_pipeline_parallel/pipeline.h"

namespace ladder {

void Pipeline::run(const Step& step) {
  timer_.begin_step();
  timer_.time(&StageTimes::all, [&] {
    for (const Action& action : schedule_) run_action(action, step);
    activation_sent_.wait(context_.stream);
    gradient_sent_.wait(context_.stream);
  });
}

void Pipeline::run_action(const Action& action, const Step& step) {
  Stream& stream = context_.stream;
  const size_t buffer = action.buffer;
  switch (action.kind) {
    case ActionKind::recv_activation:
      return recv(groups_[Axis::pipeline], model_.input(buffer), action.peer);
    case ActionKind::forward: {
      const size_t before = action.micro_batch * context_.config.micro_batch_size;
      return timer_.time(&StageTimes::forward, [&] {
        forward(Split::train, step.number, before, buffer);
        if (layout_.has(OperationKind::classifier)) model_.classify(step.token_weight, {}, buffer);
      });
    }
    case ActionKind::send_activation:
      activation_sent_.wait(stream);
      activation_sent_ = send(groups_[Axis::pipeline], model_.output(buffer), action.peer);
      // Without backward the next micro-batch gets the buffer.
      if (!layout_.has_backward()) activation_sent_.wait(stream);
      return;
    case ActionKind::recv_gradient:
      gradient_sent_.wait(stream);  // the gradient is received into the buffer that is being sent
      return recv(groups_.pipeline_gradients(), model_.d_residual(buffer), action.peer);
    case ActionKind::backward:
      gradient_sent_.wait(stream);
      return timer_.time(&StageTimes::backward, [&] { model_.backward({}, buffer); });
    case ActionKind::backward_input:
    case ActionKind::backward_weight:
      fail("Pipeline: it runs backward as a whole");
    case ActionKind::send_gradient:
      gradient_sent_ = send(groups_.pipeline_gradients(), model_.d_residual(buffer), action.peer);
      return;
    case ActionKind::reduce_embedding:
      for (size_t unit : layout_.shared_units()) {
        groups_[Axis::embedding]
            .all_reduce(stream, unit_in_flat(layout_.trained(), unit, step.gradients),
                        {.purpose = Purpose::gradient})
            .wait(stream);
      }
      return;
  }
}

void Pipeline::forward(Split split, int64_t step, size_t first_sequence, size_t buffer) {
  // Only the stages that embed tokens or compare with targets need the micro-batch's tokens.
  if (layout_.has(OperationKind::token_embedding) || layout_.has(OperationKind::classifier)) {
    model_.load(split, step, first_sequence, buffer);
  }
  model_.forward({}, buffer);
}

void Pipeline::evaluate(size_t batch, size_t num_sequences) {
  Communicator& stages = groups_[Axis::pipeline];
  const size_t micro_batch_size = context_.config.micro_batch_size;
  for (size_t done = 0; done < num_sequences; done += micro_batch_size) {
    if (stages.rank() > 0) recv(stages, model_.input(0), stages.rank() - 1);
    forward(Split::validation, static_cast<int64_t>(batch), done, 0);
    if (stages.rank() + 1 < stages.size()) {
      send(stages, model_.output(0), stages.rank() + 1).wait(context_.stream);
    } else {
      model_.evaluate();
    }
  }
}

void Pipeline::recv(Communicator& group, TensorView buffer, size_t from) {
  group.recv(context_.stream, buffer, from, {.purpose = Purpose::activation}).wait(context_.stream);
}

Work Pipeline::send(Communicator& group, ConstTensorView buffer, size_t to) {
  return group.send(context_.stream, buffer, to,
                    {.purpose = Purpose::activation, .background = true});
}

}  // namespace ladder
