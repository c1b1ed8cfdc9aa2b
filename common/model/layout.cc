#include "common/model/layout.h"

#include <utility>

#include "common/model/divisible.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kCacheLineElements = 16;

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

std::vector<size_t> operations_that_use(const ModelDescription& model, size_t unit) {
  std::vector<size_t> uses;
  for (size_t i = 0; i < model.operations.size(); ++i) {
    if (model.operations[i].unit == unit) uses.push_back(i);
  }
  return uses;
}

// Which of a tensor's slices a rank holds.
struct SliceOfTensor {
  size_t index, count;
};

// Returns the rows of each slice but the last ones, which may have fewer.
size_t most_rows(const Shape& shape, const SliceOfTensor& slice) {
  return (shape[0] + slice.count - 1) / slice.count;
}

// Divides the columns (or a vector's elements) into `groups` groups, and makes `held` this rank's
// equal part of each group.
void take_columns(Parameter& held, const SliceOfTensor& slice, size_t groups) {
  const Shape& full = held.full_shape;
  const size_t group = full[full.num_dims() - 1] / groups, count = group / slice.count;
  held.shape = full.num_dims() == 1 ? Shape{groups * count} : Shape{full[0], groups * count};
  held.ranges = {slice.index * count, count, group};
}

// Does the same with rows, where the groups divide them.
void take_rows_of_groups(Parameter& held, const SliceOfTensor& slice, size_t groups) {
  const size_t columns = held.full_shape[1], group = held.full_shape[0] / groups;
  const size_t count = group / slice.count;
  held.shape = {groups * count, columns};
  held.ranges = {slice.index * count * columns, count * columns, group * columns};
}

void take_rows(Parameter& held, const SliceOfTensor& slice) {
  const size_t rows = held.full_shape[0], columns = held.full_shape[1];
  const size_t most = most_rows(held.full_shape, slice);
  const size_t first = std::min(rows, slice.index * most);
  const size_t count = std::min(most, rows - first);
  held.shape = {count, columns};
  held.ranges = {first * columns, count * columns, count * columns};
}

}  // namespace

Layout::Layout(const ModelDescription& model, size_t world_size, const ModelPartition& part)
    : config_(model.config), part_(part), world_size_(world_size) {
  part_.end = std::min(part.end, model.operations.size());
  check(part_.first < part_.end, "Layout: a part without operations");
  check(can_split(config_, part.tensor_size), "Layout: a model that does not divide");
  check(part.expert_size == 1 || (part.tensor_size == 1 && world_size % part.expert_size == 0 &&
                                  config_.experts.num_experts % part.expert_size == 0),
        "Layout: experts that do not divide");
  check(world_size % part.replicas == 0 && (part.replicas == 1 || part.expert_size == 1),
        "Layout: replicas that do not divide the ranks");
  const auto is_here = [&](size_t operation) { return part_.has(operation); };
  std::vector<size_t> local(model.units.size());  // the index in units_ of each unit of the model
  for (size_t index = 0; index < model.units.size(); ++index) {
    const std::vector<size_t> uses = operations_that_use(model, index);
    const size_t uses_here = static_cast<size_t>(std::ranges::count_if(uses, is_here));
    if (uses_here == 0) continue;
    local[index] = units_.size();
    add_unit(model.units[index]);
    Unit& unit = units_.back();
    unit.is_shared = uses_here < uses.size();
    unit.is_copy = !is_here(uses.front());
    for (Parameter& parameter : unit.parameters) {
      const size_t copies = parameter.split ? parameter.copies : part.tensor_size;
      parameter.counted = !unit.is_copy && part.tensor_rank % copies == 0;
    }
  }
  const size_t end_of_backward = model.first_trained();
  sends_gradient_ = part_.first > end_of_backward;
  for (size_t i = 0; i < model.operations.size(); ++i) {
    if (!part_.has(i)) continue;
    if (i < end_of_backward) ++first_backward_;
    Operation operation = model.operations[i];
    operation.unit = local[operation.unit];
    const bool is_of_block =
        operation.kind == OperationKind::router || operation.kind == OperationKind::experts;
    operation.index = is_of_block ? operations_.back().index : count(operation.kind);
    operations_.push_back(operation);
  }
  if (config_.frozen.empty()) return;
  Layout trained = *this;
  trained.units_.clear();
  for (Unit unit : units_) {
    for (Parameter& parameter : unit.parameters) {
      if (parameter.trainable) continue;
      parameter.shape = {0};
      parameter.most_elements = 0;
    }
    trained.lay_out(std::move(unit));
  }
  trained_ = std::make_shared<const Layout>(std::move(trained));
}

void Layout::add_unit(const UnitSpec& spec) {
  Unit unit;
  unit.name = spec.name;
  unit.num_experts = spec.num_experts;
  if (spec.num_experts > 0) unit.expert_size = part_.expert_size;
  unit.replicas = part_.replicas;
  unit.num_shards = world_size_ / (unit.expert_size * unit.replicas);
  const size_t num_held = spec.parameters.size() / unit.expert_size;
  const size_t first = unit.expert_size > 1 ? part_.expert_rank * num_held : 0;
  for (size_t i = 0; i < num_held; ++i) {
    unit.parameters.push_back(hold(spec.parameters[first + i]));
    unit.parameters.back().index -= spec.parameters[first].index;  // of the first expert here: 0
  }
  lay_out(std::move(unit));
}

void Layout::lay_out(Unit unit) {
  unit.offset = units_.empty() ? 0 : num_elements();
  unit.shard_offset = units_.empty() ? 0 : num_shard_elements();
  unit.num_elements = unit.padded_elements = 0;
  for (const UnitPart part : kUnitParts) {
    size_t used = 0, most = 0;  // elements of the part: on this rank, and on the rank with most
    for (Parameter& parameter : unit.parameters) {
      if (parameter.trainable != (part == UnitPart::trained)) continue;
      parameter.offset = unit.padded_elements + used;
      used += parameter.shape.num_elements();
      most += parameter.most_elements;
    }
    unit.num_elements += used;
    unit.padded_elements += round_up(most, world_size_ * kCacheLineElements);
    if (part == UnitPart::trained) unit.trained_elements = unit.padded_elements;
  }
  units_.push_back(std::move(unit));
}

Parameter Layout::hold(const ParameterSpec& spec) const {
  const size_t elements = spec.shape.num_elements();
  Parameter held = {.name = spec.name,
                    .shape = spec.shape,
                    .full_shape = spec.shape,
                    .ranges = {0, elements, elements},
                    .split = spec.split != TensorSplit::none && part_.tensor_size > 1,
                    .initial_value = spec.initial_value,
                    .initial_deviation = spec.initial_deviation,
                    .trainable = spec.trainable,
                    .matrix = spec.matrix,
                    .index = spec.index,
                    .most_elements = elements};
  if (!held.split) return held;
  const size_t count = num_slices(spec.most_slices, part_.tensor_size);
  held.copies = part_.tensor_size / count;
  const SliceOfTensor slice = {part_.tensor_rank / held.copies, count};
  switch (spec.split) {
    case TensorSplit::none:
      break;
    case TensorSplit::rows:
      take_rows(held, slice);
      held.most_elements = most_rows(spec.shape, slice) * spec.shape[1];
      return held;
    case TensorSplit::columns:
    case TensorSplit::qkv_columns:
      take_columns(held, slice, spec.split == TensorSplit::columns ? 1 : 3);
      break;
    case TensorSplit::qkv_rows:
      take_rows_of_groups(held, slice, 3);
      break;
  }
  held.most_elements = held.shape.num_elements();
  return held;
}

size_t Layout::count(OperationKind kind) const {
  return static_cast<size_t>(std::ranges::count(operations_, kind, &Operation::kind));
}

std::vector<size_t> Layout::shared_units() const {
  std::vector<size_t> shared;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    const bool is_trained = units_[unit].trained_elements > 0;
    if (units_[unit].is_shared && is_trained) shared.push_back(unit);
  }
  return shared;
}

std::vector<size_t> Layout::trained_units() const {
  std::vector<size_t> trained;
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    if (units_[unit].trained_elements > 0) trained.push_back(unit);
  }
  return trained;
}

size_t Layout::num_shard_elements() const {
  const Unit& last = units_.back();
  return last.shard_offset + last.padded_elements / last.num_shards;
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

}  // namespace ladder
