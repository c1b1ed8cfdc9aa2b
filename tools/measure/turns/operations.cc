// The operations of one transformer block's forward, and what dropping what they make saves for the
// time.
#include <algorithm>

#include "common/model/activations.h"
#include "common/train/report/report.h"
#include "common/train/trainer/model_state.h"
#include "lessons/11_activation_checkpointing/policy.h"
#include "tools/measure/turns/turns.h"

namespace ladder {

void compare_operations(Ground& ground, const std::vector<std::string>& texts) {
  const TimedTrainer timed(ground, texts.empty() ? "01_single_gpu" : texts[0]);
  if (!timed.trainer) throw UserError("the operations of a block: start it on one rank");
  const RunConfig& config = timed.config;
  ModelState& state = timed.trainer->state();
  const Layout& layout = state.layout();
  const size_t batch = config.micro_batch_size, tokens = config.model.sequence_length;
  const Activations activations(ground.device, layout, config.dtype, batch, tokens);
  const ModelWorkspace workspace(ground.device, layout, config.dtype, batch, tokens);
  const auto block = std::ranges::find(layout.operations(), OperationKind::block, &Operation::kind);
  const ConstUnitView weights =
      unit_of<ConstTensorView>(layout, block->unit, state.parameters.view());
  std::vector<Contestant> contestants;
  for (const OperationCost& cost : operation_costs(config)) {
    const auto forward = [&, cost] {
      block_forward(ground.stream,
                    {block->sublayers,
                     activations.block(0),
                     activations.block_input(0),
                     weights,
                     workspace.block(activations),
                     {},
                     {},
                     {}},
                    BlockOperations(1U << cost.operation));
      ground.stream.synchronize();
    };
    const auto report = [cost] {
      return format(", %.0f FLOP/byte, %.2f MB", cost.flops / static_cast<double>(cost.bytes),
                    static_cast<double>(cost.bytes) / 1e6);
    };
    contestants.push_back({cost.name, forward, {}, report});
  }
  take_turns(ground, contestants);
}

}  // namespace ladder
