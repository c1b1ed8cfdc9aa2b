// Where every parameter lies in the flat buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "common/model/config.h"
#include "common/model/parameter.h"

namespace ladder {

// The flat buffer: unit by unit in forward order, each padded with zeros to a multiple of
// world_size * 16 elements, so that every rank's shard of a unit is equally large and begins at a
// cache line. Parameters, gradients and moments all have this layout. Where a rank holds a part of
// the model, its units are those of the part, and world_size the number of ranks with the same
// part.
//
// Tensor parallelism splits [Shoeybi19, section 3]: of the weights that read the residual stream
// the columns (by heads, within each of q, k and v) with their biases, of those that write to it
// the rows, of the token embedding the rows: rank t of N has ceil(V / N) of them, the last ranks
// fewer and padding instead. A row of padding has no token and no logit. All else is whole on every
// rank.
class Layout {
 public:
  // REQUIRES: tensor_size divides the heads; 2 units or more for the first and last of two stages.
  Layout(const Gpt2Config& config, size_t world_size, const ModelPart& part = {});

  const Gpt2Config& config() const { return config_; }
  const ModelPart& part() const { return part_; }
  size_t world_size() const { return world_size_; }
  const std::vector<Unit>& units() const { return units_; }
  const Unit& unit(size_t index) const { return units_[index]; }
  // Of the flat buffer, padding included.
  size_t num_elements() const { return units_.back().offset + units_.back().padded_elements; }
  // Without padding.
  size_t num_parameters() const;
  // Of the largest unit, and of the largest but for the token embedding; padding included.
  size_t largest_unit() const;
  size_t largest_unit_but_token_embedding() const;

  bool embeds_tokens() const { return part_.first_unit == 0; }
  bool embeds_positions() const { return part_.first_unit <= 1 && part_.end_unit >= 2; }
  bool has_classifier() const { return part_.end_unit == config_.num_layers + 3; }
  // The blocks here: layers [first_layer(), first_layer() + num_layers()) of the model.
  size_t first_layer() const { return part_.first_unit < 2 ? 0 : part_.first_unit - 2; }
  size_t num_layers() const { return num_layers_; }

  // Indices of units here. REQUIRES: the part has them.
  size_t token_embedding() const { return 0; }
  size_t position_embedding() const { return embeds_tokens() ? 1 : 0; }
  size_t block(size_t layer) const { return first_block_ + layer; }  // layer < num_layers()
  size_t final_norm() const { return units_.size() - 1; }
  bool is_token_embedding(size_t unit) const {
    return unit == 0 && (embeds_tokens() || has_classifier());
  }

  // The slice of the vocabulary: tokens [first_token(), first_token() + num_tokens()).
  size_t first_token() const;
  size_t num_tokens() const;

 private:
  void add_unit(Unit unit, size_t room);

  Gpt2Config config_;
  ModelPart part_;
  size_t world_size_;
  size_t first_block_ = 0, num_layers_ = 0;
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
