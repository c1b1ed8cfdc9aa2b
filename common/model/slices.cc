#include "common/model/slices.h"

namespace ladder {
namespace {

// Adds the slices of elements [first, last) of the flat buffer, which lie in `view`. With
// `counted_only` it leaves out copies that another rank owns.
void add_slices(std::vector<Slice>& slices, const Layout& layout, size_t first, size_t last,
                TensorView view, bool counted_only) {
  for_parameters_in(layout, first, last,
                    [&](const Parameter& parameter, size_t begin, size_t from, size_t to) {
                      if (counted_only && !parameter.counted) return;
                      slices.push_back({.parameter = &parameter,
                                        .first = from - begin,
                                        .view = view.rows(from - first, to - from)});
                    });
}

// Adds the slices of the rank's shards, or with `owned_only` of what it owns.
void add_shards(std::vector<Slice>& slices, const Layout& layout, size_t rank, TensorView buffer,
                bool owned_only) {
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    for (const UnitPart part : kUnitParts) {
      const FlatRange range = owned_only ? owned_range(layout, unit, rank, part)
                                         : FlatRange{0, shard_elements(layout, unit, part)};
      const size_t begin = shard_begin(layout, unit, rank, part) + range.first;
      add_slices(slices, layout, begin, begin + range.count,
                 shard_of(layout, unit, rank, buffer, part).rows(range.first, range.count),
                 owned_only);
    }
  }
}

}  // namespace

FlatRange owned_range(const Layout& layout, size_t unit, size_t rank, UnitPart part) {
  const size_t replicas = layout.unit(unit).replicas;
  const size_t count = shard_elements(layout, unit, part) / replicas;
  return {rank % replicas * count, count};
}

std::vector<Slice> held_slices(const Layout& layout, size_t rank, TensorView buffer) {
  std::vector<Slice> slices;
  if (layout.covers(buffer)) {
    add_slices(slices, layout, 0, layout.num_elements(), buffer, false);
  } else {
    add_shards(slices, layout, rank, buffer, false);
  }
  return slices;
}

std::vector<Slice> owned_slices(const Layout& layout, size_t rank, TensorView buffer) {
  std::vector<Slice> slices;
  add_shards(slices, layout, rank, buffer, true);
  return slices;
}

std::vector<FlatRange> flat_ranges(const Layout& layout,
                                   const std::function<bool(const Parameter&)>& is_wanted) {
  std::vector<FlatRange> ranges;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      const size_t first = unit.offset + parameter.offset, count = parameter.shape.num_elements();
      if (count == 0 || !is_wanted(parameter)) continue;
      if (!ranges.empty() && ranges.back().first + ranges.back().count == first) {
        ranges.back().count += count;
      } else {
        ranges.push_back({first, count});
      }
    }
  }
  return ranges;
}

}  // namespace ladder
