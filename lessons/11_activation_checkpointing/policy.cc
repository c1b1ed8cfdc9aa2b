#include "lessons/11_activation_checkpointing/policy.h"

#include <algorithm>
#include <utility>

#include "common/model/activations.h"

namespace ladder {

std::vector<OperationCost> operation_costs(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const size_t rows = config.micro_batch_size * model.sequence_length;
  const std::vector<Sublayer> sublayers = dense_sublayers(model);
  std::vector<OperationCost> costs;
  for (const Sublayer& sublayer : sublayers) {
    for (size_t i = 0; i < SublayerOperation::kCount; ++i) {
      const auto operation = static_cast<SublayerOperation::Index>(i);
      costs.push_back(
          {.operation = sublayer.operation(operation),
           .name = sublayer.names[i],
           .bytes = 0,
           .flops = number_of(rows) * operation_flops(sublayer, operation, model.sequence_length)});
    }
  }
  for (const ActivationSpec& spec : block_activation_specs(sublayers)) {
    const bool is_statistic = spec.kind != ActivationSpec::Kind::rows;
    costs[spec.operation].bytes +=
        rows * spec.columns * size_of(is_statistic ? config.accumulation() : config.dtype);
  }
  return costs;
}

std::vector<OperationCost> droppable_costs(const RunConfig& config) {
  std::vector<OperationCost> costs = operation_costs(config);
  std::erase_if(costs, [](const OperationCost& cost) { return cost.operation == kBlockOutput; });
  return costs;
}

PlanCost cost_of(const RunConfig& config, const RecomputePlan& plan) {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  // The model's input, and the final norm's output and statistics: rstd, and layernorm's mean.
  const size_t statistics = config.model.norm == Norm::layernorm ? 2 : 1;
  PlanCost total = {.bytes = rows * (2 * config.model.hidden * size_of(config.dtype) +
                                     statistics * size_of(config.accumulation()))};
  for (const OperationCost& cost : operation_costs(config)) {
    for (size_t block = 0; block < config.model.num_layers; ++block) {
      if (!plan.drops(block, cost.operation)) total.bytes += cost.bytes;
      if (plan.recomputed(block)[cost.operation]) total.flops += cost.flops;
    }
    for (const BlockOperations& set : plan.sets()) {
      if (set[cost.operation]) total.bytes += cost.bytes;
    }
  }
  return total;
}

size_t saved_bytes(const std::vector<OperationCost>& costs, const DropCounts& counts) {
  size_t bytes = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (counts[i] > 0) bytes += (counts[i] - 1) * costs[i].bytes;
  }
  return bytes;
}

double added_flops(const std::vector<OperationCost>& costs, const DropCounts& counts) {
  double flops = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (counts[i] > 0) flops += static_cast<double>(counts[i] - 1) * costs[i].flops;
  }
  return flops;
}

DropCounts choose_drops(const std::vector<OperationCost>& costs, size_t num_blocks, size_t bytes) {
  // A choice of counts for the first few operations. Operations are added one after the other. Of
  // all choices only those stay that no other one beats, with as many bytes saved for fewer
  // operations.
  struct Choice {
    size_t saved = 0;
    double flops = 0;
    DropCounts counts = {};
  };
  std::vector<Choice> choices = {Choice()};
  for (const OperationCost& cost : costs) {
    std::vector<Choice> longer;
    for (const Choice& choice : choices) {
      for (size_t again = 0; again < num_blocks; ++again) {
        Choice& next = longer.emplace_back(choice);
        next.saved += again * cost.bytes;
        next.flops += static_cast<double>(again) * cost.flops;
        next.counts.push_back(again == 0 ? 0 : again + 1);
        if (next.saved >= bytes) break;  // it would only cost more
      }
    }
    std::ranges::stable_sort(longer, [](const Choice& a, const Choice& b) {
      return std::pair(a.flops, b.saved) < std::pair(b.flops, a.saved);
    });
    choices.clear();
    for (Choice& choice : longer) {
      const bool saves_more = choices.empty() || choice.saved > choices.back().saved;
      const bool is_enough = !choices.empty() && choices.back().saved >= bytes;
      if (saves_more && !is_enough) choices.push_back(std::move(choice));
    }
  }
  check(choices.back().saved >= bytes, "choose_drops: no choice saves so much");
  return choices.back().counts;
}

RecomputeMode mode_of(const std::vector<OperationCost>& costs, const DropCounts& counts,
                      size_t num_blocks) {
  RecomputeMode mode = {.name = "chosen", .of_blocks = std::vector<BlockOperations>(num_blocks)};
  for (size_t i = 0; i < costs.size(); ++i) {
    for (size_t block = 0; block < counts[i]; ++block)
      mode.of_blocks[block].set(costs[i].operation);
  }
  return mode;
}

}  // namespace ladder
