#include "lessons/11_activation_checkpointing/policy.h"

#include <algorithm>
#include <utility>

#include "common/model/activations.h"

namespace ladder {

std::vector<StepCost> step_costs(const RunConfig& config) {
  const Gpt2Config& model = config.model;
  const size_t rows = config.micro_batch_size * model.sequence_length;
  const auto number = [](size_t n) { return static_cast<double>(n); };
  const double r = number(rows), c = number(model.hidden), t = number(model.sequence_length);
  const double f = number(model.ffn_size());
  // Of products two for each weight and row; of an element of a layernorm, GELU, bias or sum as
  // many as the kernels count (kernels/layernorm.h and others). A query sees half the keys.
  using S = BlockStep;
  std::vector<StepCost> costs = {
      {S::ln_1, "ln_1", 0, 8 * r * c},
      {S::qkv, "qkv", 0, r * (6 * c * c + 3 * c)},
      {S::attention, "attention", 0, r * (2 * c * t + number(model.num_heads) * t / 2)},
      {S::middle, "middle", 0, r * (2 * c * c + 2 * c)},
      {S::ln_2, "ln_2", 0, 8 * r * c},
      {S::fc, "fc", 0, r * (2 * c * f + f)},
      {S::gelu, "gelu", 0, 8 * r * f},
      {S::out, "out", 0, r * (2 * c * f + 2 * c)}};
  for (const ActivationSpec& spec : block_activation_specs(model)) {
    const bool is_statistic = spec.kind != ActivationSpec::Kind::rows;
    costs[spec.step].bytes +=
        rows * spec.columns * size_of(is_statistic ? config.accumulation() : config.dtype);
  }
  return costs;
}

std::vector<StepCost> droppable_costs(const RunConfig& config) {
  std::vector<StepCost> costs = step_costs(config);
  std::erase_if(costs, [](const StepCost& cost) { return cost.step == BlockStep::out; });
  return costs;
}

PlanCost cost_of(const RunConfig& config, const RecomputePlan& plan) {
  const size_t rows = config.micro_batch_size * config.model.sequence_length;
  // The model's input, and the final norm's output, mean and rstd.
  PlanCost total = {
      .bytes = 2 * rows *
               (config.model.hidden * size_of(config.dtype) + size_of(config.accumulation()))};
  for (const StepCost& cost : step_costs(config)) {
    for (size_t block = 0; block < config.model.num_layers; ++block) {
      if (!plan.drops(block, cost.step)) total.bytes += cost.bytes;
      if (plan.recomputed(block)[cost.step]) total.flops += cost.flops;
    }
    for (const BlockSteps& set : plan.sets()) {
      if (set[cost.step]) total.bytes += cost.bytes;
    }
  }
  return total;
}

size_t saved_bytes(const std::vector<StepCost>& costs, const DropCounts& counts) {
  size_t bytes = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (counts[i] > 0) bytes += (counts[i] - 1) * costs[i].bytes;
  }
  return bytes;
}

double added_flops(const std::vector<StepCost>& costs, const DropCounts& counts) {
  double flops = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    if (counts[i] > 0) flops += static_cast<double>(counts[i] - 1) * costs[i].flops;
  }
  return flops;
}

DropCounts choose_drops(const std::vector<StepCost>& costs, size_t num_blocks, size_t bytes) {
  // A choice of counts for the first few steps. Steps are added one after the other. Of all choices
  // only those stay that no other one beats, with as many bytes saved for fewer operations.
  struct Choice {
    size_t saved = 0;
    double flops = 0;
    DropCounts counts = {};
  };
  std::vector<Choice> choices = {Choice()};
  for (const StepCost& cost : costs) {
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

RecomputeMode mode_of(const std::vector<StepCost>& costs, const DropCounts& counts,
                      size_t num_blocks) {
  RecomputeMode mode = {.name = "chosen", .of_blocks = std::vector<BlockSteps>(num_blocks)};
  for (size_t i = 0; i < costs.size(); ++i) {
    for (size_t block = 0; block < counts[i]; ++block) mode.of_blocks[block].set(costs[i].step);
  }
  return mode;
}

}  // namespace ladder
