// Where every parameter lies in the flat buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/model/description.h"
#include "common/model/parameter.h"

namespace ladder {

// The part of the model that a rank holds.
struct ModelPart {
  static constexpr size_t kToTheEnd = ~size_t{0};

  // A pipeline stage: operations [first, end) of the model (ModelDescription::operations).
  size_t first = 0, end = kToTheEnd;
  // Tensor parallelism: the rank's slice of every tensor that is split.
  size_t tensor_rank = 0, tensor_size = 1;
};

// Where a rank's units lie in its flat buffers: one after the other, each padded with zeros to a
// multiple of world_size * 16 elements, so that every rank's shard of a unit is equally large and
// begins at a cache line. Parameters, gradients and moments all have this layout. `world_size` is
// the number of ranks that hold the same part of the model.
//
// A rank holds the units that the operations of its part use, and of tensors that tensor
// parallelism splits its slice. Where the rows of a tensor do not divide, the last ranks have fewer
// and padding in their place.
class Layout {
 public:
  // REQUIRES: tensor_size divides the heads.
  Layout(const ModelDescription& model, size_t world_size, const ModelPart& part = {});
  Layout(const Gpt2Config& config, size_t world_size, const ModelPart& part = {})
      : Layout(describe(config), world_size, part) {}

  const Gpt2Config& config() const { return config_; }
  const ModelPart& part() const { return part_; }
  size_t world_size() const { return world_size_; }
  const std::vector<Unit>& units() const { return units_; }
  const Unit& unit(size_t index) const { return units_[index]; }
  // What this part of the model does, in the order of forward. Their units are indices here.
  const std::vector<Operation>& operations() const { return operations_; }
  // Operations of a kind in this part.
  size_t count(OperationKind kind) const;
  bool has(OperationKind kind) const { return count(kind) > 0; }
  // Units of which another pipeline stage holds a copy, too (Unit::is_shared).
  std::vector<size_t> shared_units() const;
  // Elements of the flat buffer, padding included.
  size_t num_elements() const { return units_.back().offset + units_.back().padded_elements; }
  size_t num_parameters() const;  // elements, without padding
  // Has the buffer all units, and not one rank's shards alone?
  bool covers(ConstTensorView buffer) const { return buffer.num_elements() == num_elements(); }
  size_t largest_unit() const;  // its elements, padding included

 private:
  void add_unit(const UnitSpec& spec);
  Parameter hold(const ParameterSpec& spec) const;

  Gpt2Config config_;
  ModelPart part_;
  size_t world_size_;
  std::vector<Unit> units_;
  std::vector<Operation> operations_;
};

// Calls body(parameter, begin, from, to) for every parameter that has elements among [first, last)
// of the flat buffer: it begins at `begin`, and its elements [from, to) are in the range.
template <class Body>
void for_parameters_in(const Layout& layout, size_t first, size_t last, Body body) {
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      const size_t begin = unit.offset + parameter.offset;
      const size_t from = std::max(first, begin);
      const size_t to = std::min(last, begin + parameter.shape.num_elements());
      if (from < to) body(parameter, begin, from, to);
    }
  }
}

// The largest size(parameter), 0 of none.
template <class Size>
size_t largest_parameter(const Layout& layout, Size size) {
  size_t largest = 0;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) largest = std::max(largest, size(parameter));
  }
  return largest;
}

// A unit's parameters (or gradients) in memory, padding included: unit[i] is its i-th parameter.
template <class View>
class BasicUnitView {
 public:
  // REQUIRES: flat has unit.padded_elements elements and outlives this; so does `unit`.
  BasicUnitView(const Unit& unit, View flat) : unit_(&unit), flat_(flat) {}
  View operator[](size_t index) const {
    const Parameter& parameter = unit_->parameters[index];
    return flat_.elements(parameter.offset, parameter.shape);
  }

 private:
  const Unit* unit_;
  View flat_;
};
using UnitView = BasicUnitView<TensorView>;
using ConstUnitView = BasicUnitView<ConstTensorView>;

// The unit's part of a flat buffer, padding included.
template <class View>
View unit_in_flat(const Layout& layout, size_t unit, View flat) {
  return flat.rows(layout.unit(unit).offset, layout.unit(unit).padded_elements);
}
// The same as its parameters.
template <class View>
BasicUnitView<View> unit_of(const Layout& layout, size_t unit, View flat) {
  return {layout.unit(unit), unit_in_flat(layout, unit, flat)};
}

// Shards: rank r of N owns the r-th N-th of every unit, padding included. Its shards lie in the
// flat buffer at shard_begin, or in a buffer of num_elements() / N elements that holds them alone,
// unit by unit.

// Elements of one rank's shard of the unit.
inline size_t shard_elements(const Layout& layout, size_t unit) {
  return layout.unit(unit).padded_elements / layout.world_size();
}
// Where it begins in the flat buffer.
inline size_t shard_begin(const Layout& layout, size_t unit, size_t rank) {
  return layout.unit(unit).offset + rank * shard_elements(layout, unit);
}
// The shard in the flat buffer.
template <class View>
View shard_in_flat(const Layout& layout, size_t unit, size_t rank, View flat) {
  return flat.rows(shard_begin(layout, unit, rank), shard_elements(layout, unit));
}
// The same shard in a buffer that holds one rank's shards alone.
template <class View>
View shard_in_shards(const Layout& layout, size_t unit, View shards) {
  return shards.rows(layout.unit(unit).offset / layout.world_size(), shard_elements(layout, unit));
}
// The same shard in a buffer that is the one or the other, as its size tells.
template <class View>
View shard_of(const Layout& layout, size_t unit, size_t rank, View buffer) {
  return layout.covers(buffer) ? shard_in_flat(layout, unit, rank, buffer)
                               : shard_in_shards(layout, unit, buffer);
}

}  // namespace ladder
