// Where every parameter lies in the flat buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "common/model/config.h"
#include "kernels/runtime/tensor.h"

namespace ladder {

// One tensor of the model, under its published name; weights are stored (in, out).
struct Parameter {
  std::string name;
  Shape shape;
  size_t offset = 0;         // elements from the beginning of its unit
  double initial_value = 0;  // of every element, unless initial_deviation > 0: then normal about 0
  double initial_deviation = 0;

  // Weight decay applies to 2-D weights only, not to biases and layernorm parameters.
  bool decays() const { return shape.num_dims() == 2; }
};

// A unit is what hooks, buckets, shards and pipeline stages count in: the token embedding, the
// position embedding, each block, the final norm.
struct Unit {
  std::string name;
  std::vector<Parameter> parameters;  // one after the other, without gaps
  size_t offset = 0;                  // elements from the beginning of the flat buffer
  size_t num_elements = 0;            // of its parameters
  size_t padded_elements = 0;         // what it takes in the flat buffer
};

// The flat buffer: unit by unit in forward order, each padded with zeros to a multiple of
// world_size * 16 elements, so that every rank's shard of a unit is equally large and begins at a
// cache line. Parameters, gradients and moments all have this layout.
class Layout {
 public:
  Layout(const Gpt2Config& config, size_t world_size);

  const Gpt2Config& config() const { return config_; }
  size_t world_size() const { return world_size_; }
  const std::vector<Unit>& units() const { return units_; }
  const Unit& unit(size_t index) const { return units_[index]; }
  // Of the flat buffer, padding included.
  size_t num_elements() const { return units_.back().offset + units_.back().padded_elements; }
  size_t num_parameters() const { return config_.num_parameters(); }
  // Of the largest unit, and of the largest but for the token embedding; padding included.
  size_t largest_unit() const;
  size_t largest_unit_but_token_embedding() const;

  size_t token_embedding() const { return 0; }
  size_t position_embedding() const { return 1; }
  size_t block(size_t layer) const { return 2 + layer; }
  size_t final_norm() const { return 2 + config_.num_layers; }

 private:
  Gpt2Config config_;
  size_t world_size_;
  std::vector<Unit> units_;
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

// The unit's part of a flat buffer with the given layout.
template <class View>
BasicUnitView<View> unit_of(const Layout& layout, size_t unit, View flat) {
  const Unit& u = layout.unit(unit);
  return {u, flat.rows(u.offset, u.padded_elements)};
}

// Shards: rank r of N answers for the r-th N-th of every unit, padding included. They lie in the
// flat buffer at shard_begin, or alone in a buffer of num_elements() / N elements, unit by unit.

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

}  // namespace ladder
