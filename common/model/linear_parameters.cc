#include "common/model/linear_parameters.h"

#include <cmath>
#include <utility>

#include "kernels/runtime/cost.h"

namespace ladder {

ParameterSpec weight(std::string name, const Shape& shape, TensorSplit split, double deviation) {
  return {.name = std::move(name), .shape = shape, .split = split, .initial_deviation = deviation};
}

namespace {

// Adds the A and B of the layer's adapters (adapters.h). A has the variance of the uniform numbers
// that the authors' program draws, 1 / (3 inputs), and B is zero: they begin by adding nothing.
// [github.com/microsoft/LoRA, loralib; Hugging Face's peft does the same]
void add_adapters(UnitSpec& unit, const std::string& group, const Linear& linear, size_t index) {
  const auto add = [&](const LinearPart& part, const char* name, const Shape& shape,
                       TensorSplit split, LinearParameter::Index i) -> ParameterSpec& {
    unit.parameters.push_back({.name = concat(group, ".", part.name, name),
                               .shape = shape,
                               .split = split,
                               .most_slices = part.most_slices,
                               .index = index + i});
    return unit.parameters.back();
  };
  const size_t rank = linear.adapter_rank;
  // What the layer's split leaves whole each rank has, and a part of its gradient: one slice.
  const bool splits_outputs = linear.splits_outputs();
  const bool is_qkv = linear.split == TensorSplit::qkv_columns;
  for (const LinearPart& part : linear.parts) {
    if (!part.is_adapted) continue;
    ParameterSpec& a = add(part, ".lora_A.weight", {rank, linear.in}, TensorSplit::columns,
                           LinearParameter::adapter_a);
    if (splits_outputs) a.most_slices = 1;
    a.initial_deviation = 1 / std::sqrt(3 * number_of(linear.in));
  }
  for (const LinearPart& part : linear.parts) {
    if (!part.is_adapted) continue;
    ParameterSpec& b =
        add(part, ".lora_B.weight", {part.out, rank},
            is_qkv ? TensorSplit::qkv_rows : TensorSplit::rows, LinearParameter::adapter_b);
    if (!splits_outputs) b.most_slices = 1;
  }
}

}  // namespace

void add_linear(UnitSpec& unit, const std::string& group, const Linear& linear, size_t index) {
  for (const LinearPart& part : linear.parts) {
    unit.parameters.push_back(weight(concat(group, ".", part.name, ".weight"),
                                     linear.weight_shape(part), linear.split,
                                     linear.initial_deviation));
    unit.parameters.back().index = index;
    unit.parameters.back().most_slices = part.most_slices;
    unit.parameters.back().matrix = {linear.split == TensorSplit::qkv_columns ? 3U : 1U,
                                     linear.out_first};
  }
  // The slices of a vector are "columns".
  const TensorSplit as_weight = linear.out_first ? TensorSplit::columns : linear.split;
  for (const LinearPart& part : linear.parts) {
    if (!linear.has_bias) break;
    unit.parameters.push_back({.name = concat(group, ".", part.name, ".bias"),
                               .shape = {part.out},
                               .split = linear.splits_outputs() ? as_weight : TensorSplit::none,
                               .most_slices = part.most_slices,
                               .index = index + LinearParameter::bias});
  }
  add_adapters(unit, group, linear, index);
}

}  // namespace ladder
