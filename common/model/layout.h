// The layout says where every parameter lies in the flat buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/model/description.h"
#include "common/model/parameter.h"
#include "common/model/unit_view.h"

namespace ladder {

// A rank's units lie one after the other in its flat buffers. Each part of a unit (UnitPart) is
// padded with zeros to a multiple of world_size * 16 elements, so that every rank's shard of it is
// equally large and begins at a cache line. `world_size` is the number of ranks that hold the same
// part of the model. Parameters have this layout; gradients, moments and masters have trained().
//
// A rank holds the units that the operations of its part use; of tensors that are split it holds
// its slice. If the rows of a tensor do not divide, the last ranks have fewer rows, and padding.
class Layout {
 public:
  // Throws what describe() throws. REQUIRES: tensor_size ranks can_split() the model, expert_size
  // divides the experts and world_size, one of the two is 1, and `replicas` divides world_size.
  Layout(const ModelDescription& model, size_t world_size, const ModelPartition& part = {});
  Layout(const ModelConfig& config, size_t world_size, const ModelPartition& part = {})
      : Layout(describe(config), world_size, part) {}

  // Returns the layout of gradients, moments and masters: the same units, in which frozen
  // parameters have no elements. It is this layout if nothing is frozen.
  const Layout& trained() const { return trained_ ? *trained_ : *this; }
  // Returns the units that have a trained part.
  std::vector<size_t> trained_units() const;
  // Returns the operation with which backward ends: the first of this part that is no earlier than
  // the model's first_trained(). If the part has none it is the number of operations.
  size_t first_backward() const { return first_backward_; }
  bool has_backward() const { return first_backward_ < operations_.size(); }
  // Returns whether the part before this one has backward, and so wants the gradient of its output.
  // REQUIRES: the part is one chunk.
  bool sends_gradient() const { return sends_gradient_; }

  const ModelConfig& config() const { return config_; }
  const ModelPartition& part() const { return part_; }
  size_t world_size() const { return world_size_; }
  const std::vector<Unit>& units() const { return units_; }
  const Unit& unit(size_t index) const { return units_[index]; }
  // The operations of this part, in the order of forward. Operation::unit is an index of units().
  const std::vector<Operation>& operations() const { return operations_; }
  // Returns the number of operations of a kind in this part.
  size_t count(OperationKind kind) const;
  bool has(OperationKind kind) const { return count(kind) > 0; }
  // Returns the trained units of which another pipeline stage holds a copy too (Unit::is_shared).
  std::vector<size_t> shared_units() const;
  // Returns the elements of the flat buffer, padding included.
  size_t num_elements() const { return units_.back().offset + units_.back().padded_elements; }
  // Returns the elements of a buffer that has only one rank's shards.
  size_t num_shard_elements() const;
  size_t num_parameters() const;  // elements without padding
  // Returns true if the buffer has all units, and false if it has only one rank's shards.
  bool covers(ConstTensorView buffer) const { return buffer.num_elements() == num_elements(); }
  size_t largest_unit() const;  // elements of the largest unit, padding included

 private:
  void add_unit(const UnitSpec& spec);
  // Appends the unit, and says where it and its parameters lie.
  void lay_out(Unit unit);
  Parameter hold(const ParameterSpec& spec) const;

  ModelConfig config_;
  ModelPartition part_;
  size_t world_size_;
  std::vector<Unit> units_;
  std::vector<Operation> operations_;
  size_t first_backward_ = 0;
  bool sends_gradient_ = false;
  std::shared_ptr<const Layout> trained_;  // null if nothing is frozen
};

// Calls body(parameter, begin, from, to) for every parameter with elements in [first, last) of the
// flat buffer. The parameter begins at element `begin` of the buffer, and [from, to) are in range.
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

// Return the unit's part of a flat buffer, padding included, and its view.
template <class View>
View unit_in_flat(const Layout& layout, size_t unit, View flat) {
  return flat.rows(layout.unit(unit).offset, layout.unit(unit).padded_elements);
}
template <class View>
BasicUnitView<View> unit_of(const Layout& layout, size_t unit, View flat) {
  return {layout.unit(unit), unit_in_flat(layout, unit, flat)};
}

// A unit's S shards (Unit::num_shards) are an S-th of each part of it, padding included, in the
// order of the ranks that hold them. Most units have one on each of N ranks. If only every E-th
// rank is in the unit's group, or E ranks hold each shard, rank r has shard r / E of N / E. A
// rank's shards lie in a flat buffer, each at shard_begin(), or in a buffer of num_shard_elements()
// elements that has only these, unit by unit.

// Returns the elements of one rank's shard of the unit.
inline size_t shard_elements(const Layout& layout, size_t unit, UnitPart part = UnitPart::trained) {
  return layout.unit(unit).elements_of(part) / layout.unit(unit).num_shards;
}
// Returns the element of the flat buffer at which the shard begins.
inline size_t shard_begin(const Layout& layout, size_t unit, size_t rank,
                          UnitPart part = UnitPart::trained) {
  const size_t shard = rank / (layout.world_size() / layout.unit(unit).num_shards);
  return layout.unit(unit).offset + layout.unit(unit).begin_of(part) +
         shard * shard_elements(layout, unit, part);
}
// Returns the shard in a buffer that is flat, or has only one rank's shards; its size tells which.
template <class View>
View shard_of(const Layout& layout, size_t unit, size_t rank, View buffer,
              UnitPart part = UnitPart::trained) {
  const Unit& u = layout.unit(unit);
  return buffer.rows(layout.covers(buffer) ? shard_begin(layout, unit, rank, part)
                                           : u.shard_offset + u.begin_of(part) / u.num_shards,
                     shard_elements(layout, unit, part));
}

}  // namespace ladder
