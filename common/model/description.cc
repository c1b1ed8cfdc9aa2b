#include "common/model/description.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/model/linear_parameters.h"
#include "common/model/lora.h"
#include "kernels/runtime/cost.h"

namespace ladder {
namespace {

// Adds the weight, which scales, and layernorm's bias, which shifts; the weight gets `index`.
void add_norm(UnitSpec& unit, const std::string& name, Norm norm, size_t hidden, size_t index = 0) {
  unit.parameters.push_back(
      {.name = name + ".weight", .shape = {hidden}, .initial_value = 1, .index = index});
  if (norm == Norm::rmsnorm) return;
  unit.parameters.push_back({.name = name + ".bias", .shape = {hidden}, .index = index + 1});
}

// Adds the weight of a norm of heads. Each of several ranks has a copy of it and some of the heads,
// so it is split into one slice: its gradient on a rank is that of the rank's heads.
void add_head_norm(UnitSpec& unit, const std::string& name, size_t head_size, size_t index) {
  add_norm(unit, name, Norm::rmsnorm, head_size, index);
  unit.parameters.back().split = TensorSplit::columns;
  unit.parameters.back().most_slices = 1;
}

// The published names of what is no part of a block's sublayers.
struct Names {
  const char *tokens, *positions, *block, *router, *experts, *final_norm;
};
Names names_of(const ModelConfig& config) {
  if (config.is_gpt2()) return {"wte", "wpe", "h.", "router", "experts", "ln_f"};
  return {"embed_tokens", "", "layers.", "block_sparse_moe.gate", "block_sparse_moe.experts",
          "norm"};
}

// Returns the unit of a transformer block: each sublayer's parameters in the order of
// SublayerParameter::Index. Of a sublayer with experts it has the norm alone.
UnitSpec block_unit(const std::vector<Sublayer>& sublayers, const std::string& name) {
  using P = SublayerParameter;
  UnitSpec unit = {.name = name, .parameters = {}};
  for (const Sublayer& s : sublayers) {
    const std::string group = concat(name, ".", s.group);
    add_norm(unit, concat(name, ".", s.norm_name), s.norm, s.first.in, s.parameter(P::norm_weight));
    if (s.num_experts > 0) continue;
    add_linear(unit, group, s.first, s.parameter(P::first_weight));
    if (s.norms_heads) {
      add_head_norm(unit, group + ".q_norm", s.head_size(), s.parameter(P::query_norm));
      add_head_norm(unit, group + ".k_norm", s.head_size(), s.parameter(P::key_norm));
    }
    add_linear(unit, group, s.second, s.parameter(P::second_weight));
  }
  return unit;
}

UnitSpec router_unit(const ModelConfig& config, const std::string& block) {
  const std::string router = concat(block, ".", names_of(config).router);
  const size_t c = config.hidden, e = config.experts.num_experts;
  const Shape shape = config.is_gpt2() ? Shape{c, e} : Shape{e, c};
  return {.name = router, .parameters = {weight(router + ".weight", shape, TensorSplit::none)}};
}

// Of each expert the unit has the parameters of two linear layers, by ExpertParameter.
UnitSpec experts_unit(const ModelConfig& config, const Sublayer& sublayer,
                      const std::string& block) {
  using P = ExpertParameter;
  UnitSpec unit = {.name = concat(block, ".", names_of(config).experts),
                   .parameters = {},
                   .num_experts = sublayer.num_experts};
  for (size_t expert = 0; expert < unit.num_experts; ++expert) {
    const std::string group = concat(unit.name, ".", expert);
    add_linear(unit, group, sublayer.first, expert * P::kCount + P::first_weight);
    add_linear(unit, group, sublayer.second, expert * P::kCount + P::second_weight);
  }
  return unit;
}

// Adds the units and operations of a transformer block.
void add_block(ModelDescription& model, size_t index) {
  const ModelConfig& config = model.config;
  const std::vector<Sublayer> sublayers = sublayers_of(config, index);
  const std::string name = concat(names_of(config).block, index);
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
  add(block_unit(sublayers, name), std::move(block));
  for (Sublayer sublayer : sublayers) {
    if (sublayer.num_experts == 0) continue;
    add(router_unit(config, name),
        {.kind = OperationKind::router,
         .unit = 0,
         .forward_flops = 2 * number_of(config.hidden) * number_of(sublayer.num_experts),
         .starts_stage = false});
    UnitSpec experts = experts_unit(config, sublayer, name);
    sublayer.num_experts = 0;  // an expert is the sublayer without experts
    add(std::move(experts), {.kind = OperationKind::experts,
                             .unit = 0,
                             .forward_flops = product_flops(sublayer, config.sequence_length) *
                                              number_of(config.experts.per_token),
                             .starts_stage = false});
  }
}

// Throws UserError if some parts of a linear layer are frozen, and others not: then they do not lie
// side by side.
void check_parts(const UnitSpec& unit) {
  for (size_t i = 1; i < unit.parameters.size(); ++i) {
    const ParameterSpec &before = unit.parameters[i - 1], &part = unit.parameters[i];
    if (before.index != part.index || before.trainable == part.trainable) continue;
    throw UserError(concat("frozen ", (part.trainable ? before : part).name, ": is computed with ",
                           (part.trainable ? part : before).name, "; freeze both or none"));
  }
}

// Freezes what the names are of.
void freeze(ModelDescription& model) {
  const std::vector<std::string>& frozen = model.config.frozen;
  const std::set<std::string> names(frozen.begin(), frozen.end());  // of experts there are many
  std::set<std::string> left = names;
  bool is_any_trained = false;
  for (UnitSpec& unit : model.units) {
    for (ParameterSpec& parameter : unit.parameters) {
      parameter.trainable = !names.contains(unit.name) && !names.contains(parameter.name);
      left.erase(unit.name);
      left.erase(parameter.name);
      is_any_trained = is_any_trained || parameter.trainable;
    }
  }
  for (const UnitSpec& unit : model.units) check_parts(unit);
  if (!left.empty()) {
    throw UserError(
        concat("frozen ", *left.begin(), ": neither a unit nor a parameter of the model"));
  }
  if (!is_any_trained) throw UserError("every parameter is frozen; nothing is left to train");
}

size_t num_elements(const UnitSpec& unit) {
  size_t sum = 0;
  for (const ParameterSpec& parameter : unit.parameters) sum += parameter.shape.num_elements();
  return sum;
}

size_t num_trained(const UnitSpec& unit) {
  size_t sum = 0;
  for (const ParameterSpec& parameter : unit.parameters) {
    sum += parameter.trainable ? parameter.shape.num_elements() : 0;
  }
  return sum;
}

// Returns the share of a unit's elements, or of some of them, that one token uses.
size_t active(size_t elements, const UnitSpec& unit, const ModelConfig& config) {
  if (unit.num_experts == 0) return elements;
  return elements / unit.num_experts * config.experts.per_token;
}

}  // namespace

ModelDescription describe(const ModelConfig& config) {
  const size_t c = config.hidden, v = config.vocab_size;
  if (config.lora) check_lora(config);
  ModelDescription model(config);
  const auto add_unit = [&](UnitSpec unit) {
    model.units.push_back(std::move(unit));
    return model.units.size() - 1;
  };
  using enum OperationKind;
  const auto add_table = [&](const std::string& name, size_t rows, TensorSplit split) {
    return add_unit({name, {weight(name + ".weight", {rows, c}, split)}});
  };
  const Names names = names_of(config);
  const size_t tokens = add_table(names.tokens, v, TensorSplit::rows);
  model.operations.push_back({.kind = token_embedding, .unit = tokens, .tensor_sums = 1});
  if (config.positions == Positions::learned) {
    const size_t table = add_table(names.positions, config.sequence_length, TensorSplit::none);
    model.operations.push_back({.kind = position_embedding, .unit = table});
  }
  for (size_t index = 0; index < config.num_layers; ++index) add_block(model, index);
  UnitSpec norm = {.name = names.final_norm, .parameters = {}};
  add_norm(norm, norm.name, config.norm, c);
  const size_t last = add_unit(std::move(norm));
  model.operations.push_back({.kind = final_norm, .unit = last, .backward_reads_weights = true});
  const size_t outputs = config.num_outputs();
  const char* const own = !config.labels.empty() ? kHeadUnit : config.untied ? "lm_head" : nullptr;
  const size_t head = own != nullptr ? add_table(own, outputs, TensorSplit::rows) : tokens;
  model.operations.push_back({.kind = classifier,
                              .unit = head,
                              .forward_flops = 2 * number_of(c) * number_of(outputs),
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

size_t ModelDescription::num_trained_parameters() const {
  size_t sum = 0;
  for (const UnitSpec& unit : units) sum += num_trained(unit);
  return sum;
}

size_t ModelDescription::num_active_parameters() const {
  size_t sum = 0;
  for (const UnitSpec& unit : units) sum += active(num_elements(unit), unit, config);
  return sum;
}

size_t ModelDescription::first_trained() const {
  size_t first = 0;
  while (num_trained(units[operations[first].unit]) == 0) ++first;
  return first;
}

double ModelDescription::flops_per_token() const {
  const double attention = 4.0 * number_of(config.query_columns() * config.sequence_length);
  const size_t first = first_trained();
  double flops = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    const OperationKind kind = operations[i].kind;
    // A table that is only looked up multiplies nothing. (The classifier counts that of the tokens
    // where the table is its weight, too.)
    if (kind == OperationKind::token_embedding || kind == OperationKind::position_embedding) {
      continue;
    }
    const UnitSpec& unit = units[operations[i].unit];
    const bool reaches = i > first || (i == first && kind != OperationKind::classifier);
    const double all = number_of(active(num_elements(unit), unit, config));
    flops += 2 * (reaches ? 2 * all : all) + 2 * number_of(active(num_trained(unit), unit, config));
    if (kind == OperationKind::block) flops += (reaches ? 3 : 1) * attention;
  }
  return flops;
}

}  // namespace ladder
