#include "common/model/layout.h"

#include <cmath>
#include <utility>

#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kCacheLineElements = 16;
constexpr double kDeviation = 0.02;  // [Radford19 GPT-2]

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Makes parameters of one rank of the tensor-parallel ranks.
class Slicer {
 public:
  explicit Slicer(const ModelPart& part) : rank_(part.tensor_rank), size_(part.tensor_size) {}

  Parameter whole(std::string name, const Shape& shape) const {
    Parameter parameter =
        held(std::move(name), shape, shape, {0, shape.num_elements(), shape.num_elements()});
    parameter.split = false;
    parameter.counted = rank_ == 0;
    return parameter;
  }
  // Rows [first, first + count) of a matrix.
  Parameter rows(std::string name, const Shape& shape, size_t first, size_t count) const {
    return held(std::move(name), {count, shape[1]}, shape,
                {first * shape[1], count * shape[1], count * shape[1]});
  }
  // An equal part of the rows.
  Parameter rows(std::string name, const Shape& shape) const {
    const size_t count = shape[0] / size_;
    return rows(std::move(name), shape, rank_ * count, count);
  }
  // An equal part of the columns (of a vector: of its elements) of each of `groups` column groups.
  Parameter columns(std::string name, const Shape& shape, size_t groups = 1) const {
    const size_t num_columns = shape[shape.num_dims() - 1];
    const size_t group = num_columns / groups, count = group / size_;
    const Shape here =
        shape.num_dims() == 1 ? Shape{groups * count} : Shape{shape[0], groups * count};
    // A part of everything is one run: shorter to walk.
    return held(std::move(name), here, shape,
                size_ == 1 ? Runs{0, shape.num_elements(), shape.num_elements()}
                           : Runs{rank_ * count, count, group});
  }

 private:
  Parameter held(std::string name, const Shape& here, const Shape& shape, const Runs& runs) const {
    Parameter parameter;
    parameter.name = std::move(name);
    parameter.shape = here;
    parameter.full_shape = shape;
    parameter.runs = runs;
    parameter.split = size_ > 1;
    return parameter;
  }

  size_t rank_, size_;
};

Parameter weight(Parameter parameter, double deviation = kDeviation) {
  parameter.initial_deviation = deviation;
  return parameter;
}

Unit norm_unit(const Slicer& slice, const std::string& name, size_t hidden) {
  Unit unit = {name,
               {slice.whole(name + ".weight", {hidden}), slice.whole(name + ".bias", {hidden})}};
  unit.parameters[0].initial_value = 1;
  return unit;
}

Unit block_unit(const Gpt2Config& config, const Slicer& slice, size_t layer) {
  const size_t c = config.hidden;
  const std::string h = concat("h.", layer);
  // Layers that add to the residual stream start smaller, by 1/sqrt(of their number). [Radford19]
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  Unit unit = norm_unit(slice, h + ".ln_1", c);
  const Unit norm_2 = norm_unit(slice, h + ".ln_2", c);
  unit.name = h;
  std::vector<Parameter>& p = unit.parameters;
  p.push_back(weight(slice.columns(h + ".attn.c_attn.weight", {c, 3 * c}, 3)));
  p.push_back(slice.columns(h + ".attn.c_attn.bias", {3 * c}, 3));
  p.push_back(weight(slice.rows(h + ".attn.c_proj.weight", {c, c}), residual));
  p.push_back(slice.whole(h + ".attn.c_proj.bias", {c}));
  p.insert(p.end(), norm_2.parameters.begin(), norm_2.parameters.end());
  p.push_back(weight(slice.columns(h + ".mlp.c_fc.weight", {c, 4 * c})));
  p.push_back(slice.columns(h + ".mlp.c_fc.bias", {4 * c}));
  p.push_back(weight(slice.rows(h + ".mlp.c_proj.weight", {4 * c, c}), residual));
  p.push_back(slice.whole(h + ".mlp.c_proj.bias", {c}));
  return unit;
}

}  // namespace

Layout::Layout(const Gpt2Config& config, size_t world_size, const ModelPart& part)
    : config_(config), part_(part), world_size_(world_size) {
  const size_t c = config.hidden, num_units = config.num_layers + 3;
  part_.end_unit = std::min(part.end_unit, num_units);
  check(part_.first_unit < part_.end_unit, "Layout: a part without units");
  check(config.num_heads % part.tensor_size == 0, "Layout: heads that do not divide");
  const Slicer slice(part_);
  if (embeds_tokens() || has_classifier()) {
    const Shape shape = {config.vocab_size, c};
    Unit wte = {"wte", {weight(slice.rows("wte.weight", shape, first_token(), num_tokens()))}};
    wte.parameters[0].counted = embeds_tokens();
    const size_t most_tokens = (config.vocab_size + part.tensor_size - 1) / part.tensor_size;
    add_unit(std::move(wte), most_tokens * c);
  }
  if (embeds_positions()) {
    add_unit({"wpe", {weight(slice.whole("wpe.weight", {config.sequence_length, c}))}}, 0);
  }
  first_block_ = units_.size();
  for (size_t unit = std::max<size_t>(part_.first_unit, 2);
       unit < std::min(part_.end_unit, num_units - 1); ++unit) {
    add_unit(block_unit(config, slice, unit - 2), 0);
    ++num_layers_;
  }
  if (has_classifier()) add_unit(norm_unit(slice, "ln_f", c), 0);
}

void Layout::add_unit(Unit unit, size_t room) {
  unit.offset = units_.empty() ? 0 : num_elements();
  for (Parameter& parameter : unit.parameters) {
    parameter.offset = unit.num_elements;
    unit.num_elements += parameter.shape.num_elements();
  }
  unit.padded_elements =
      round_up(std::max(unit.num_elements, room), world_size_ * kCacheLineElements);
  units_.push_back(std::move(unit));
}

size_t Layout::num_parameters() const {
  size_t sum = 0;
  for (const Unit& unit : units_) sum += unit.num_elements;
  return sum;
}

size_t Layout::largest_unit() const {
  size_t largest = 0;
  for (const Unit& unit : units_) largest = std::max(largest, unit.padded_elements);
  return largest;
}

size_t Layout::largest_unit_but_token_embedding() const {
  size_t largest = 0;
  for (size_t index = 0; index < units_.size(); ++index) {
    if (!is_token_embedding(index)) largest = std::max(largest, units_[index].padded_elements);
  }
  return largest;
}

size_t Layout::first_token() const {
  const size_t most = (config_.vocab_size + part_.tensor_size - 1) / part_.tensor_size;
  return std::min(config_.vocab_size, part_.tensor_rank * most);
}

size_t Layout::num_tokens() const {
  const size_t most = (config_.vocab_size + part_.tensor_size - 1) / part_.tensor_size;
  return std::min(most, config_.vocab_size - first_token());
}

}  // namespace ladder
