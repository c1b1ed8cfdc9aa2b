#include "common/model/description.h"

#include <cmath>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr double kDeviation = 0.02;  // [Radford19 GPT-2]

ParameterSpec weight(std::string name, const Shape& shape, TensorSplit split,
                     double deviation = kDeviation) {
  return {.name = std::move(name), .shape = shape, .split = split, .initial_deviation = deviation};
}

ParameterSpec bias(std::string name, size_t size, TensorSplit split = TensorSplit::none) {
  return {.name = std::move(name), .shape = {size}, .split = split};
}

// A layernorm's weight scales and its bias shifts.
ParameterSpec norm_weight(const std::string& norm, size_t hidden) {
  return {.name = norm + ".weight", .shape = {hidden}, .initial_value = 1};
}
ParameterSpec norm_bias(const std::string& norm, size_t hidden) {
  return bias(norm + ".bias", hidden);
}

// The 2 L weights that write to the residual stream start smaller, so that its size at the end
// does not depend on L. [Radford19]
double residual_deviation(const Gpt2Config& config) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
}

// Adds the parameters of an MLP, in the order of BlockParameter::Index.
void add_mlp(UnitSpec& unit, const std::string& mlp, const Gpt2Config& config) {
  const size_t c = config.hidden, f = config.ffn_size();
  for (ParameterSpec& parameter : std::vector{
           weight(mlp + ".c_fc.weight", {c, f}, TensorSplit::columns),
           bias(mlp + ".c_fc.bias", f, TensorSplit::columns),
           weight(mlp + ".c_proj.weight", {f, c}, TensorSplit::rows, residual_deviation(config)),
           bias(mlp + ".c_proj.bias", c)}) {
    unit.parameters.push_back(std::move(parameter));
  }
}

// Returns the unit of a transformer block. Its parameters are in the order of
// BlockParameter::Index. Without an MLP the last ones are missing.
UnitSpec block_unit(const Gpt2Config& config, size_t index) {
  const size_t c = config.hidden;
  const std::string h = concat("h.", index);
  UnitSpec unit = {
      .name = h,
      .parameters = {
          norm_weight(h + ".ln_1", c), norm_bias(h + ".ln_1", c),
          weight(h + ".attn.c_attn.weight", {c, 3 * c}, TensorSplit::qkv_columns),
          bias(h + ".attn.c_attn.bias", 3 * c, TensorSplit::qkv_columns),
          weight(h + ".attn.c_proj.weight", {c, c}, TensorSplit::rows, residual_deviation(config)),
          bias(h + ".attn.c_proj.bias", c),  //
          norm_weight(h + ".ln_2", c), norm_bias(h + ".ln_2", c)}};
  if (!config.has_experts(index)) add_mlp(unit, h + ".mlp", config);
  return unit;
}

UnitSpec router_unit(const Gpt2Config& config, size_t index) {
  const std::string router = concat("h.", index, ".router");
  return {.name = router,
          .parameters = {weight(router + ".weight", {config.hidden, config.experts.num_experts},
                                TensorSplit::none)}};
}

UnitSpec experts_unit(const Gpt2Config& config, size_t index) {
  UnitSpec unit = {.name = concat("h.", index, ".experts"),
                   .parameters = {},
                   .num_experts = config.experts.num_experts};
  for (size_t expert = 0; expert < unit.num_experts; ++expert) {
    add_mlp(unit, concat(unit.name, ".", expert), config);
  }
  return unit;
}

// Adds the units and operations of a transformer block.
void add_block(ModelDescription& model, size_t index) {
  const Gpt2Config& config = model.config;
  const double width = static_cast<double>(config.hidden);
  const double length = static_cast<double>(config.sequence_length);
  // The products are those with 4 C^2 weights and 2 C F of the MLP, and in each head q with k and
  // the probabilities with v, which is 4 T C FLOP for T tokens. The causal half that is never
  // computed counts too, as is usual.
  const double mlp = 4 * width * static_cast<double>(config.ffn_size());
  const bool has_mlp = !config.has_experts(index);
  const auto add = [&](UnitSpec unit, Operation operation) {
    operation.index = index;
    operation.backward_reads_weights = true;
    model.units.push_back(std::move(unit));
    model.operations.push_back(operation);
  };
  add(block_unit(config, index),
      {.kind = OperationKind::block,
       .unit = model.units.size(),
       .forward_flops = 8 * width * width + (has_mlp ? mlp : 0) + 4 * length * width,
       .tensor_sums = has_mlp ? size_t{4} : size_t{2},  // half in forward, half in backward
       .has_mlp = has_mlp});
  if (has_mlp) return;
  const ExpertsConfig& experts = config.experts;
  add(router_unit(config, index),
      {.kind = OperationKind::router,
       .unit = model.units.size(),
       .forward_flops = 2 * width * static_cast<double>(experts.num_experts),
       .starts_stage = false});
  add(experts_unit(config, index), {.kind = OperationKind::experts,
                                    .unit = model.units.size(),
                                    .forward_flops = mlp * static_cast<double>(experts.per_token),
                                    .starts_stage = false});
}

size_t num_elements(const UnitSpec& unit) {
  size_t sum = 0;
  for (const ParameterSpec& parameter : unit.parameters) sum += parameter.shape.num_elements();
  return sum;
}

}  // namespace

ModelDescription describe(const Gpt2Config& config) {
  const size_t c = config.hidden, v = config.vocab_size;
  ModelDescription model(config);
  const auto add_unit = [&](UnitSpec unit) {
    model.units.push_back(std::move(unit));
    return model.units.size() - 1;
  };
  using enum OperationKind;
  const size_t wte = add_unit({"wte", {weight("wte.weight", {v, c}, TensorSplit::rows)}});
  model.operations.push_back({.kind = token_embedding, .unit = wte, .tensor_sums = 1});
  const size_t wpe =
      add_unit({"wpe", {weight("wpe.weight", {config.sequence_length, c}, TensorSplit::none)}});
  model.operations.push_back({.kind = position_embedding, .unit = wpe});
  for (size_t index = 0; index < config.num_layers; ++index) add_block(model, index);
  const size_t ln_f = add_unit({"ln_f", {norm_weight("ln_f", c), norm_bias("ln_f", c)}});
  model.operations.push_back({.kind = final_norm, .unit = ln_f, .backward_reads_weights = true});
  const size_t head =
      config.untied ? add_unit({"lm_head", {weight("lm_head.weight", {v, c}, TensorSplit::rows)}})
                    : wte;
  model.operations.push_back({.kind = classifier,
                              .unit = head,
                              .forward_flops = 2 * static_cast<double>(c) * static_cast<double>(v),
                              .tensor_sums = 1,
                              .starts_stage = false});
  return model;
}

size_t ModelDescription::num_parameters() const {
  size_t sum = 0;
  for (const UnitSpec& unit : units) sum += num_elements(unit);
  return sum;
}

size_t ModelDescription::num_active_parameters() const {
  size_t sum = num_parameters();
  for (const UnitSpec& unit : units) {
    if (unit.num_experts == 0) continue;
    sum -= num_elements(unit) / unit.num_experts * (unit.num_experts - config.experts.per_token);
  }
  return sum;
}

double ModelDescription::flops_per_token() const {
  size_t multiplied = num_active_parameters();
  for (const Operation& operation : operations) {
    // A table that is only looked up multiplies nothing. That of the tokens is the classifier's
    // weight, too, unless the model is untied.
    const bool looks_up = operation.kind == OperationKind::token_embedding ||
                          operation.kind == OperationKind::position_embedding;
    if (!looks_up || operation.unit == operations.back().unit) continue;
    multiplied -= num_elements(units[operation.unit]);
  }
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * static_cast<double>(config.num_layers * config.hidden * config.sequence_length);
}

}  // namespace ladder
