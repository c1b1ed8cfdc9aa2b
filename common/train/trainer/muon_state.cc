#include "common/train/trainer/muon_state.h"

#include <algorithm>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/runtime/range.h"

namespace ladder {
namespace {

// Returns the elements of the flat buffer that count: all those of the range, or those that rank
// `rank` owns.
FlatRange counted_part(const Layout& layout, const UpdatedRange& range,
                       std::optional<size_t> rank) {
  if (!rank) return {range.begin, range.count};
  const FlatRange owned = owned_range(layout, range.unit, *rank);
  const size_t begin = shard_begin(layout, range.unit, *rank) + owned.first;
  const size_t from = std::max(begin, range.begin);
  const size_t to = std::min(begin + owned.count, range.begin + range.count);
  return {from, from < to ? to - from : 0};
}

// Appends the part of the range's moments, which begin at element `at` of the buffer.
void add_slice(std::vector<Slice>& slices, const UpdatedRange& range, const FlatRange& part,
               TensorView buffer, size_t at) {
  if (part.count == 0) return;
  const size_t skipped = part.first - range.begin;
  slices.push_back({range.parameter, range.first + skipped, buffer.rows(at + skipped, part.count)});
}

// Returns the range's parameters; `layout` has frozen ones, too.
TensorView parameters_of(const UpdatedRange& range, const Layout& layout, ModelState& state) {
  const size_t within = range.first + range.parameter->offset;
  return state.parameters.view().rows(layout.unit(range.unit).offset + within, range.count);
}

}  // namespace

UpdatedRanges::UpdatedRanges(const OptimizerConfig& config, const Layout& layout)
    : layout_(layout) {
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    for (const Parameter& parameter : layout.unit(unit).parameters) {
      const size_t count = parameter.shape.num_elements();
      if (count == 0) continue;
      UpdatedRange range = {.parameter = &parameter,
                            .unit = unit,
                            .first = 0,
                            .count = count,
                            .begin = layout.unit(unit).offset + parameter.offset,
                            .moment = num_moments_,
                            .second = {}};
      num_moments_ += count;
      if (!is_muons(config, parameter)) {
        range.second = num_seconds_;
        num_seconds_ += count;
      }
      all_.push_back(range);
    }
  }
}

std::vector<const Parameter*> UpdatedRanges::parameters() const {
  std::vector<const Parameter*> parameters;
  for (const UpdatedRange& range : all_) parameters.push_back(range.parameter);
  return parameters;
}

std::vector<Slice> UpdatedRanges::moments(TensorView buffer, std::optional<size_t> rank) const {
  std::vector<Slice> slices;
  for (const UpdatedRange& range : all_) {
    add_slice(slices, range, counted_part(layout_, range, rank), buffer, range.moment);
  }
  return slices;
}

std::vector<Slice> UpdatedRanges::seconds(TensorView buffer, std::optional<size_t> rank) const {
  std::vector<Slice> slices;
  for (const UpdatedRange& range : all_) {
    if (!range.second) continue;
    add_slice(slices, range, counted_part(layout_, range, rank), buffer, *range.second);
  }
  return slices;
}

MuonState::MuonState(const TrainerContext& context, UpdatedRanges ranges)
    : ranges_(std::move(ranges)),
      muon_(context.device_memory, context.config.optimizer, context.config.accumulation(),
            ranges_.parameters()) {}

void MuonState::update(Stream& stream, const Layout& layout, ModelState& state,
                       const AdamWStep& step) {
  const TensorView masters = state.optimizer.masters;
  std::vector<AdamWTensors> others;
  for (const UpdatedRange& range : ranges_.all()) {
    const auto moments = [&](TensorView all) { return all.rows(range.moment, range.count); };
    const TensorView own = parameters_of(range, layout, state);
    const TensorView target = masters.empty() ? own : moments(masters);
    const TensorView copy = masters.empty() ? TensorView() : own;
    const TensorView moment = moments(state.optimizer.exp_avg);
    const ConstTensorView grad = state.gradients.view().rows(range.begin, range.count);
    if (range.second) {
      const TensorView second = state.optimizer.exp_avg_sq.view().rows(*range.second, range.count);
      others.push_back({target, moment, second, grad, copy, range.parameter->decays()});
    } else {
      muon_.update(stream, {range.parameter, target, moment, grad, copy}, step);
    }
  }
  const Range traced(stream, "AdamW");
  adamw(stream, others, step);
}

void MuonState::set_masters(Stream& stream, const Layout& layout, ModelState& state) {
  for (const UpdatedRange& range : ranges_.all()) {
    const TensorView masters = state.optimizer.masters.view().rows(range.moment, range.count);
    cast(stream, masters, parameters_of(range, layout, state));
  }
  stream.synchronize();
}

}  // namespace ladder
