#include "common/train/trainer/muon_state.h"

#include <algorithm>
#include <utility>

#include "kernels/columns.h"

namespace ladder {
namespace {

// Returns elements [first, first + count) of all but second moments.
AdamWTensors rows_of(const AdamWTensors& all, size_t first, size_t count) {
  const auto rows = [&](auto view) { return view.empty() ? view : view.rows(first, count); };
  return {.param = rows(all.param),
          .exp_avg = rows(all.exp_avg),
          .exp_avg_sq = {},
          .grad = rows(all.grad),
          .copy = rows(all.copy)};
}

}  // namespace

SecondMoments::SecondMoments(const OptimizerConfig& config, const Layout& layout, size_t rank,
                             bool is_sharded)
    : layout_(layout), rank_(rank) {
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const size_t begin = is_sharded ? shard_begin(layout, unit, rank) : layout.unit(unit).offset;
    const size_t count =
        is_sharded ? shard_elements(layout, unit) : layout.unit(unit).trained_elements;
    for_parameters_in(layout, begin, begin + count,
                      [&](const Parameter& parameter, size_t first, size_t from, size_t to) {
                        if (is_muons(config, parameter)) return;
                        ranges_.push_back({.parameter = &parameter,
                                           .unit = unit,
                                           .first = from - first,
                                           .count = to - from,
                                           .flat = from,
                                           .within = from - begin,
                                           .at = num_elements_});
                        num_elements_ += to - from;
                      });
  }
}

std::vector<AdamWTensors> SecondMoments::adamw_tensors(size_t unit, const AdamWTensors& all,
                                                       TensorView buffer) const {
  std::vector<AdamWTensors> tensors;
  for (const Range& range : ranges_) {
    if (range.unit != unit) continue;
    tensors.push_back(rows_of(all, range.within, range.count));
    tensors.back().exp_avg_sq = buffer.rows(range.at, range.count);
    tensors.back().decays = range.parameter->decays();
  }
  return tensors;
}

std::vector<Slice> SecondMoments::held(TensorView buffer) const {
  std::vector<Slice> slices;
  for (const Range& range : ranges_) {
    slices.push_back({range.parameter, range.first, buffer.rows(range.at, range.count)});
  }
  return slices;
}

std::vector<Slice> SecondMoments::owned(TensorView buffer) const {
  std::vector<Slice> slices;
  for (const Range& range : ranges_) {
    if (!range.parameter->counted) continue;
    const FlatRange owned = owned_range(layout_, range.unit, rank_);
    const size_t begin = shard_begin(layout_, range.unit, rank_) + owned.first;
    const size_t from = std::max(begin, range.flat);
    const size_t to = std::min(begin + owned.count, range.flat + range.count);
    if (from >= to) continue;
    const size_t skipped = from - range.flat;
    slices.push_back(
        {range.parameter, range.first + skipped, buffer.rows(range.at + skipped, to - from)});
  }
  return slices;
}

namespace {

// Returns the weights that this rank makes orthogonal.
std::vector<const Parameter*> weights_at_home(const auto& groups) {
  std::vector<const Parameter*> weights;
  for (const auto& group : groups) {
    for (const HomedWeight* weight : group.homes.at(group.rank())) {
      weights.push_back(weight->parts[0].slice);
    }
  }
  return weights;
}

// Returns how many elements each rank sends to each home in a round.
PairCounts counts_in(const MuonHomes& homes, size_t round) {
  std::vector<size_t> counts(homes.size() * homes.size());
  for (size_t home = 0; home < homes.size(); ++home) {
    for (const HomedWeight* weight : homes.in_round(home, round)) {
      for (size_t from = 0; from < homes.size(); ++from) {
        counts[from * homes.size() + home] += weight->parts[from].count;
      }
    }
  }
  return PairCounts(homes.size(), std::move(counts));
}

// Returns whether the parts that a home receives are one whole weight as they lie there: shards do,
// in the order of their ranks. Slices do not, nor do parts of several weights.
bool are_whole(const MuonHomes::Weights& weights, const Layout& layout) {
  return weights.size() == 1 && layout.part().tensor_size == 1;
}

// Copies a slice of a whole weight from it, or to it.
void copy_slice(Stream& stream, const Parameter& parameter, TensorView slice, TensorView whole,
                bool to_whole) {
  const auto [first, length, stride] = parameter.ranges;
  if (length == slice.num_elements()) {  // it lies together
    const TensorView there = whole.elements(first, slice.shape());
    return to_whole ? copy(stream, there, slice) : copy(stream, slice, there);
  }
  const TensorView rows = whole.reshape({whole.num_elements() / stride, stride});
  const TensorView own = slice.reshape({slice.num_elements() / length, length});
  if (to_whole) {
    copy_columns(stream, rows, first, own, 0, length);
  } else {
    copy_columns(stream, own, 0, rows, first, length);
  }
}

}  // namespace

MuonState::MuonState(const TrainerContext& context, const Layout& layout, size_t rank,
                     bool is_sharded, const MuonRanks& ranks)
    : layout_(layout),
      rank_(rank),
      is_sharded_(is_sharded),
      momentum_(context.config.optimizer.muon_momentum),
      seconds_(context.config.optimizer, layout, rank, is_sharded),
      groups_(groups_of(context.config.optimizer, layout, rank, is_sharded, ranks)),
      muon_(context.device_memory, context.config.optimizer, context.config.dtype,
            weights_at_home(groups_)) {
  allocate(context);
}

std::deque<MuonState::Group> MuonState::groups_of(const OptimizerConfig& config,
                                                  const Layout& layout, size_t rank,
                                                  bool is_sharded, const MuonRanks& ranks) {
  std::deque<Group> groups;
  for (const bool of_divided : {false, true}) {
    const auto is_one = [&](const Unit& unit) { return (unit.expert_size > 1) == of_divided; };
    if (std::ranges::none_of(layout.units(), is_one)) continue;
    Communicator* const own = of_divided ? ranks.of_divided : ranks.all;
    const MuonHomes::Group group = {.size = own == nullptr ? 1 : own->size(),
                                    .has_shards = is_sharded,
                                    .of_divided = of_divided,
                                    .choice = ranks.choice};
    groups.emplace_back(own, config, layout, rank, group);
  }
  return groups;
}

size_t MuonState::num_at_home() const {
  size_t matrices = 0;
  for (const Group& group : groups_) matrices += group.homes.matrices_at(group.rank());
  return matrices;
}

void MuonState::allocate(const TrainerContext& context) {
  size_t own = 0, home = 0, whole = 0, slice = 0;
  for (const Group& group : groups_) {
    for (size_t round = 0; round < group.homes.num_rounds(); ++round) {
      // Not even a rank without parts, or that is no home, may give the exchange no memory.
      const PairCounts counts = counts_in(group.homes, round);
      own = std::max({own, counts.sent(group.rank()), size_t{1}});
      if (group.homes.size() == 1) continue;
      home = std::max({home, counts.received(group.rank()), size_t{1}});
      const MuonHomes::Weights& weights = group.homes.in_round(group.rank(), round);
      if (are_whole(weights, layout_)) continue;
      for (const HomedWeight* weight : weights) {
        whole = std::max(whole, weight->parts[0].slice->full_shape.num_elements());
        if (layout_.part().tensor_size == 1) continue;
        slice = std::max(slice, weight->parts[0].slice->most_elements);
      }
    }
  }
  const auto make = [&](size_t elements) {
    if (elements == 0) return Tensor();
    return Tensor(context.device_memory, Category::workspace, context.config.accumulation(),
                  {elements});
  };
  own_ = make(own), home_ = make(home), whole_ = make(whole), slice_ = make(slice);
}

void MuonState::update(Stream& stream, const PartOf& part_of, const AdamWStep& step) {
  for (const Group& group : groups_) {
    for (size_t round = 0; round < group.homes.num_rounds(); ++round) {
      run_round(stream, group, round, part_of, step);
    }
  }
}

void MuonState::run_round(Stream& stream, const Group& group, size_t round, const PartOf& part_of,
                          const AdamWStep& step) {
  const MuonHomes& homes = group.homes;
  const size_t rank = group.rank();
  const PairCounts counts = counts_in(homes, round);
  const auto for_own_parts = [&](auto body) {
    size_t begin = 0;
    for (size_t home = 0; home < homes.size(); ++home) {
      for (const HomedWeight* weight : homes.in_round(home, round)) {
        const WeightPart& part = weight->parts[rank];
        if (part.count == 0) continue;
        body(own_part(part_of, *weight, part), own_.view().rows(begin, part.count));
        begin += part.count;
      }
    }
  };
  for_own_parts([&](const AdamWTensors& part, TensorView blended) {
    muon_blend(stream, blended, part.exp_avg, part.grad, momentum_, step.grad_scale);
  });
  const TensorView own = own_.view().rows(0, counts.sent(rank));
  const MuonHomes::Weights& at_home = homes.in_round(rank, round);
  if (homes.size() == 1) {
    run_at_home(stream, at_home, own, step.learning_rate);
  } else {
    const CallOptions options = {.purpose = Purpose::update};
    const TensorView parts = home_.view().rows(0, counts.received(rank));
    group.ranks->all_to_all(stream, parts, own, counts, options).wait(stream);
    run_at_home(stream, at_home, parts, step.learning_rate);
    group.ranks->all_to_all(stream, own, parts, counts.reversed(), options).wait(stream);
  }
  for_own_parts([&](const AdamWTensors& part, TensorView moved) {
    muon_move(stream, part.param, part.copy, moved, step);
  });
}

void MuonState::run_at_home(Stream& stream, const MuonHomes::Weights& weights, TensorView parts,
                            double learning_rate) {
  size_t begin = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const Parameter& parameter = *weights[i]->parts[0].slice;
    const size_t elements = parameter.full_shape.num_elements();
    const bool lies_together = are_whole(weights, layout_) || weights[i]->parts.size() == 1;
    const TensorView whole =
        (lies_together ? parts.rows(begin, elements) : whole_.view().rows(0, elements))
            .reshape(parameter.full_shape);
    if (!lies_together) copy_parts(stream, weights, i, parts, whole, true);
    muon_.orthogonalize_all(stream, parameter, whole, learning_rate);
    if (!lies_together) copy_parts(stream, weights, i, parts, whole, false);
    begin += elements;
  }
}

void MuonState::copy_parts(Stream& stream, const MuonHomes::Weights& weights, size_t i,
                           TensorView parts, TensorView whole, bool to_whole) {
  const size_t tensor_size = layout_.part().tensor_size;
  const bool is_split = tensor_size > 1;
  for (size_t t = 0; t < tensor_size; ++t) {
    const Parameter& parameter = *weights[i]->parts[t].slice;
    const size_t elements = parameter.shape.num_elements();
    // Of copies one is enough; all of them are alike.
    if (elements == 0 || (to_whole && !parameter.counted)) continue;
    const TensorView slice = is_split ? slice_.view().rows(0, elements) : whole.reshape({elements});
    if (is_split && !to_whole) copy_slice(stream, parameter, slice, whole, false);
    size_t begin = 0;
    for (size_t rank = 0; rank < weights[i]->parts.size(); ++rank) {
      for (size_t j = 0; j < weights.size(); ++j) {
        const auto& [held, first, count] = weights[j]->parts[rank];
        if (j == i && rank % tensor_size == t && count > 0) {
          const TensorView part = parts.rows(begin, count), of_slice = slice.rows(first, count);
          to_whole ? copy(stream, of_slice, part) : copy(stream, part, of_slice);
        }
        begin += count;
      }
    }
    if (is_split && to_whole) copy_slice(stream, parameter, slice, whole, true);
  }
}

AdamWTensors MuonState::own_part(const PartOf& part_of, const HomedWeight& weight,
                                 const WeightPart& part) const {
  const Unit& unit = layout_.unit(weight.unit);
  const size_t begin = unit.offset + unit.parameters[weight.index].offset + part.first;
  const size_t within =
      begin - (is_sharded_ ? shard_begin(layout_, weight.unit, rank_) : unit.offset);
  return rows_of(part_of(weight.unit), within, part.count);
}

}  // namespace ladder
