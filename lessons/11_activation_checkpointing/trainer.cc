#include "lessons/11_activation_checkpointing/trainer.h"

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/report/report.h"

namespace ladder {
namespace {

constexpr const char* kFlag = "--activation-memory";

// Returns what the policy chooses, or --recompute.
RecomputeMode choose_mode(const RunConfig& config, const CheckpointingTrainer::Flags& flags) {
  const size_t num_blocks = config.model.num_layers, most = flags.activation_memory;
  if (most == 0) return config.recompute;
  if (config.recompute.dropped.any()) {
    throw UserError(concat(kFlag, " chooses what is dropped, and so does --recompute ",
                           config.recompute.name, "; give one of them"));
  }
  if (config.offload_activations) {
    throw UserError(concat(kFlag,
                           " counts activations that wait on the device, and with "
                           "--offload-activations they wait on the host; give one of them"));
  }
  const std::vector<OperationCost> costs = droppable_costs(config);
  const size_t all = cost_of(config, {}).bytes;
  const size_t least = all - saved_bytes(costs, DropCounts(costs.size(), num_blocks));
  if (most < least) {
    throw UserError(concat(kFlag, " ", most,
                           ": the blocks' inputs and one block's activations take ", least,
                           " bytes for ", counted(config.micro_batch_size, "sequence"), "; take ",
                           least, ", or a smaller --micro-batch-size"));
  }
  return mode_of(costs, choose_drops(costs, num_blocks, all - std::min(all, most)), num_blocks);
}

RunConfig with_mode(RunConfig config, const RecomputeMode& mode) {
  config.recompute = mode;
  return config;
}

}  // namespace

void CheckpointingTrainer::Flags::add_to(FlagTable& flags) {
  flags.heading("Memory", ComparedBy::nothing);
  flags.add(kFlag, activation_memory,
            "Bytes that activations may take, such as 40MiB: what is dropped is chosen so "
            "that backward computes little again [what --recompute says]",
            byte_size());
}

std::string CheckpointingTrainer::describe(const Flags& flags, const RunConfig& config,
                                           const ProcessGrid&, const SharedPlan&) {
  const RecomputePlan plan = plan_recompute(choose_mode(config, flags), config.model);
  std::string text = format("  %-10s %14s %16s %12s %11s %15s\n", "drops", "bytes a block",
                            "FLOP a block", "bytes/FLOP", "dropped by", "computed again");
  for (const OperationCost& cost : operation_costs(config)) {
    size_t dropped = 0, again = 0;
    for (size_t block = 0; block < config.model.num_layers; ++block) {
      dropped += plan.drops(block, cost.operation);
      again += plan.recomputed(block)[cost.operation];
    }
    text +=
        format("  %-10s %14s %16s %12.4f %11zu %15zu\n", cost.name, with_commas(cost.bytes).c_str(),
               with_commas(static_cast<uint64_t>(cost.flops)).c_str(),
               static_cast<double>(cost.bytes) / cost.flops, dropped, again);
  }
  const PlanCost cost = cost_of(config, plan);
  const auto tokens = static_cast<double>(config.micro_batch_size * config.model.sequence_length);
  if (config.offload_activations) {
    text +=
        "  offloads what is kept: it waits on the host, and the device holds two blocks of it\n";
  }
  return text + format(
                    "  takes    %s bytes of activations instead of %s; backward computes %s "
                    "operations again, %.1f %% of a step\n",
                    with_commas(cost.bytes).c_str(), with_commas(cost_of(config, {}).bytes).c_str(),
                    with_commas(static_cast<uint64_t>(cost.flops)).c_str(),
                    100 * cost.flops / tokens / ladder::describe(config.model).flops_per_token());
}

CheckpointingTrainer::CheckpointingTrainer(const TrainerContext& context, const Flags& flags)
    : config_(with_mode(context.config, choose_mode(context.config, flags))),
      trainer_(
          {config_, context.corpus, context.device_memory, context.host_memory, context.stream},
          {}) {}

}  // namespace ladder
