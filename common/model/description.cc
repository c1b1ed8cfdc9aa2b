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

// Returns the unit of a transformer block. Its parameters are in the order of
// BlockParameter::Index.
UnitSpec block_unit(const Gpt2Config& config, size_t index) {
  const size_t c = config.hidden;
  const std::string h = concat("h.", index);
  // The 2 L weights that write to the residual stream start smaller, so that its size at the end
  // does not depend on L. [Radford19]
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  return {.name = h,
          .parameters = {norm_weight(h + ".ln_1", c), norm_bias(h + ".ln_1", c),
                         weight(h + ".attn.c_attn.weight", {c, 3 * c}, TensorSplit::qkv_columns),
                         bias(h + ".attn.c_attn.bias", 3 * c, TensorSplit::qkv_columns),
                         weight(h + ".attn.c_proj.weight", {c, c}, TensorSplit::rows, residual),
                         bias(h + ".attn.c_proj.bias", c),  //
                         norm_weight(h + ".ln_2", c), norm_bias(h + ".ln_2", c),
                         weight(h + ".mlp.c_fc.weight", {c, 4 * c}, TensorSplit::columns),
                         bias(h + ".mlp.c_fc.bias", 4 * c, TensorSplit::columns),
                         weight(h + ".mlp.c_proj.weight", {4 * c, c}, TensorSplit::rows, residual),
                         bias(h + ".mlp.c_proj.bias", c)}};
}

}  // namespace

ModelDescription describe(const Gpt2Config& config) {
  const size_t c = config.hidden, v = config.vocab_size;
  const double width = static_cast<double>(c), length = static_cast<double>(config.sequence_length);
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
  for (size_t index = 0; index < config.num_layers; ++index) {
    // The products are those with 12 C^2 weights, and in each head q with k and the probabilities
    // with v, which is 4 T C FLOP for T tokens. The causal half that is never computed counts too,
    // as is usual.
    model.operations.push_back({.kind = block,
                                .unit = add_unit(block_unit(config, index)),
                                .index = index,
                                .forward_flops = 24 * width * width + 4 * length * width,
                                .tensor_sums = 4,  // twice in forward, twice in backward
                                .backward_reads_weights = true});
  }
  const size_t ln_f = add_unit({"ln_f", {norm_weight("ln_f", c), norm_bias("ln_f", c)}});
  model.operations.push_back({.kind = final_norm, .unit = ln_f, .backward_reads_weights = true});
  model.operations.push_back({.kind = classifier,
                              .unit = wte,
                              .forward_flops = 2 * width * static_cast<double>(v),
                              .tensor_sums = 1,
                              .starts_stage = false});
  return model;
}

size_t ModelDescription::num_parameters() const {
  size_t sum = 0;
  for (const UnitSpec& unit : units) {
    for (const ParameterSpec& parameter : unit.parameters) sum += parameter.shape.num_elements();
  }
  return sum;
}

double ModelDescription::flops_per_token() const {
  return 6.0 * static_cast<double>(num_parameters()) +
         12.0 * static_cast<double>(config.num_layers * config.hidden * config.sequence_length);
}

}  // namespace ladder
