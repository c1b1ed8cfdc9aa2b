#include "common/model/description.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

ParameterSpec weight(std::string name, const Shape& shape, TensorSplit split,
                     double deviation = kInitialDeviation) {
  return {.name = std::move(name), .shape = shape, .split = split, .initial_deviation = deviation};
}

// Adds the weight, which scales, and the bias, which shifts.
void add_norm(UnitSpec& unit, const std::string& name, size_t hidden) {
  unit.parameters.push_back({.name = name + ".weight", .shape = {hidden}, .initial_value = 1});
  unit.parameters.push_back({.name = name + ".bias", .shape = {hidden}});
}

void add_linear(UnitSpec& unit, const std::string& group, const Linear& linear) {
  const std::string name = concat(group, ".", linear.name);
  const bool splits_bias = linear.split != TensorSplit::rows;
  unit.parameters.push_back(
      weight(name + ".weight", {linear.in, linear.out}, linear.split, linear.initial_deviation));
  unit.parameters.push_back({.name = name + ".bias",
                             .shape = {linear.out},
                             .split = splits_bias ? linear.split : TensorSplit::none});
}

// Returns the unit of a transformer block: each sublayer's parameters in the order of
// SublayerParameter::Index. Of a sublayer with experts it has the norm alone.
UnitSpec block_unit(const std::vector<Sublayer>& sublayers, size_t index) {
  UnitSpec unit = {.name = concat("h.", index), .parameters = {}};
  for (const Sublayer& sublayer : sublayers) {
    const std::string group = concat(unit.name, ".", sublayer.group);
    add_norm(unit, concat(unit.name, ".", sublayer.names[SublayerOperation::norm]),
             sublayer.first.in);
    if (sublayer.num_experts > 0) continue;
    add_linear(unit, group, sublayer.first);
    add_linear(unit, group, sublayer.second);
  }
  return unit;
}

UnitSpec router_unit(const Gpt2Config& config, size_t index) {
  const std::string router = concat("h.", index, ".router");
  return {.name = router,
          .parameters = {weight(router + ".weight", {config.hidden, config.experts.num_experts},
                                TensorSplit::none)}};
}

UnitSpec experts_unit(const Sublayer& sublayer, size_t index) {
  UnitSpec unit = {.name = concat("h.", index, ".experts"),
                   .parameters = {},
                   .num_experts = sublayer.num_experts};
  for (size_t expert = 0; expert < unit.num_experts; ++expert) {
    add_linear(unit, concat(unit.name, ".", expert), sublayer.first);
    add_linear(unit, concat(unit.name, ".", expert), sublayer.second);
  }
  return unit;
}

// Adds the units and operations of a transformer block.
void add_block(ModelDescription& model, size_t index) {
  const Gpt2Config& config = model.config;
  const std::vector<Sublayer> sublayers = sublayers_of(config, index);
  const auto add = [&](UnitSpec unit, Operation operation) {
    operation.unit = model.units.size();
    operation.index = index;
    operation.backward_reads_weights = true;
    model.units.push_back(std::move(unit));
    model.operations.push_back(std::move(operation));
  };
  Operation block = {.kind = OperationKind::block, .unit = 0, .sublayers = sublayers};
  for (const Sublayer& sublayer : sublayers) {
    block.forward_flops += product_flops(sublayer, config.sequence_length);
    if (sublayer.num_experts == 0) block.tensor_sums += 2;  // one in forward, one in backward
  }
  add(block_unit(sublayers, index), std::move(block));
  for (Sublayer sublayer : sublayers) {
    if (sublayer.num_experts == 0) continue;
    add(router_unit(config, index),
        {.kind = OperationKind::router,
         .unit = 0,
         .forward_flops = 2 * number_of(config.hidden) * number_of(sublayer.num_experts),
         .starts_stage = false});
    UnitSpec experts = experts_unit(sublayer, index);
    sublayer.num_experts = 0;  // an expert is the sublayer without experts
    add(std::move(experts), {.kind = OperationKind::experts,
                             .unit = 0,
                             .forward_flops = product_flops(sublayer, config.sequence_length) *
                                              number_of(config.experts.per_token),
                             .starts_stage = false});
  }
}

// Freezes what the names are of.
void freeze(ModelDescription& model) {
  std::vector<std::string> left = model.config.frozen;
  bool is_any_trained = false;
  for (UnitSpec& unit : model.units) {
    for (ParameterSpec& parameter : unit.parameters) {
      for (const std::string& name : model.config.frozen) {
        if (name != unit.name && name != parameter.name) continue;
        parameter.trainable = false;
        std::erase(left, name);
      }
      is_any_trained = is_any_trained || parameter.trainable;
    }
  }
  if (!left.empty()) {
    throw UserError(concat("frozen ", left[0], ": neither a unit nor a parameter of the model"));
  }
  if (!is_any_trained) throw UserError("every parameter is frozen; nothing is left to train");
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
  UnitSpec norm = {.name = "ln_f", .parameters = {}};
  add_norm(norm, norm.name, c);
  const size_t ln_f = add_unit(std::move(norm));
  model.operations.push_back({.kind = final_norm, .unit = ln_f, .backward_reads_weights = true});
  const size_t head =
      config.untied ? add_unit({"lm_head", {weight("lm_head.weight", {v, c}, TensorSplit::rows)}})
                    : wte;
  model.operations.push_back({.kind = classifier,
                              .unit = head,
                              .forward_flops = 2 * static_cast<double>(c) * static_cast<double>(v),
                              .tensor_sums = 1,
                              .starts_stage = false});
  if (!config.frozen.empty()) freeze(model);
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

bool can_split(const Gpt2Config& config, size_t tensor_size) {
  for (const Sublayer& sublayer : dense_sublayers(config)) {
    if (sublayer.num_heads % tensor_size != 0 || sublayer.second.in % tensor_size != 0) {
      return false;
    }
  }
  const size_t most_tokens = (config.vocab_size + tensor_size - 1) / tensor_size;
  return most_tokens * (tensor_size - 1) < config.vocab_size;
}

void check_split(const Gpt2Config& config, size_t tensor_size, const std::string& asked) {
  if (can_split(config, tensor_size)) return;
  size_t works = std::min(tensor_size, config.num_heads);
  while (!can_split(config, works)) --works;
  throw UserError(concat(asked, ": ", counted(config.num_heads, "head"),
                         config.ffn == 0 ? "" : concat(", an inner layer of ", config.ffn),
                         " and a vocabulary of ", counted(config.vocab_size, "token"),
                         " cannot be split among ", counted(tensor_size, "rank"), "; ", works,
                         " would do"));
}

}  // namespace ladder
