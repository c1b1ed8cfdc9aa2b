#include "common/model/layout.h"

#include <cmath>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kCacheLineElements = 16;
constexpr double kDeviation = 0.02;  // [Radford19 GPT-2]

Parameter weight(std::string name, const Shape& shape, double deviation = kDeviation) {
  return {std::move(name), shape, 0, 0, deviation};
}

Parameter vector(std::string name, size_t extent, double value = 0) {
  return {std::move(name), {extent}, 0, value, 0};
}

Unit block_unit(const Gpt2Config& config, size_t layer) {
  const size_t c = config.hidden;
  const std::string h = concat("h.", layer, ".");
  // Layers that add to the residual stream start smaller, by 1/sqrt(of their number). [Radford19]
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  return {
      h.substr(0, h.size() - 1),
      {vector(h + "ln_1.weight", c, 1), vector(h + "ln_1.bias", c),
       weight(h + "attn.c_attn.weight", {c, 3 * c}), vector(h + "attn.c_attn.bias", 3 * c),
       weight(h + "attn.c_proj.weight", {c, c}, residual), vector(h + "attn.c_proj.bias", c),
       vector(h + "ln_2.weight", c, 1), vector(h + "ln_2.bias", c),
       weight(h + "mlp.c_fc.weight", {c, 4 * c}), vector(h + "mlp.c_fc.bias", 4 * c),
       weight(h + "mlp.c_proj.weight", {4 * c, c}, residual), vector(h + "mlp.c_proj.bias", c)}};
}

}  // namespace

Layout::Layout(const Gpt2Config& config, size_t world_size)
    : config_(config), world_size_(world_size) {
  const size_t c = config.hidden;
  units_.push_back({"wte", {weight("wte.weight", {config.vocab_size, c})}});
  units_.push_back({"wpe", {weight("wpe.weight", {config.sequence_length, c})}});
  for (size_t layer = 0; layer < config.num_layers; ++layer) {
    units_.push_back(block_unit(config, layer));
  }
  units_.push_back({"ln_f", {vector("ln_f.weight", c, 1), vector("ln_f.bias", c)}});

  const size_t multiple = world_size * kCacheLineElements;
  size_t offset = 0;
  for (Unit& unit : units_) {
    unit.offset = offset;
    for (Parameter& parameter : unit.parameters) {
      parameter.offset = unit.num_elements;
      unit.num_elements += parameter.shape.num_elements();
    }
    unit.padded_elements = (unit.num_elements + multiple - 1) / multiple * multiple;
    offset += unit.padded_elements;
  }
}

size_t Layout::largest_unit() const {
  return std::max(unit(token_embedding()).padded_elements, largest_unit_but_token_embedding());
}

size_t Layout::largest_unit_but_token_embedding() const {
  size_t largest = 0;
  for (size_t index = 0; index < units_.size(); ++index) {
    if (index != token_embedding()) largest = std::max(largest, units_[index].padded_elements);
  }
  return largest;
}

}  // namespace ladder
