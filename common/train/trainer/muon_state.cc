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

UpdatedRanges::UpdatedRanges(const OptimizerConfig& config, const Layout& layout, size_t rank,
                             bool is_sharded)
    : layout_(layout), rank_(rank) {
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const size_t begin = is_sharded ? shard_begin(layout, unit, rank) : layout.unit(unit).offset;
    const size_t count =
        is_sharded ? shard_elements(layout, unit) : layout.unit(unit).trained_elements;
    for_parameters_in(layout, begin, begin + count,
                      [&](const Parameter& parameter, size_t first, size_t from, size_t to) {
                        UpdatedRange range = {.parameter = &parameter,
                                              .unit = unit,
                                              .first = from - first,
                                              .count = to - from,
                                              .begin = from,
                                              .within = from - begin,
                                              .second = {}};
                        if (!is_muons(config, parameter)) {
                          range.second = num_seconds_;
                          num_seconds_ += range.count;
                        }
                        all_.push_back(range);
                      });
  }
}

std::vector<AdamWTensors> UpdatedRanges::others(size_t unit, const AdamWTensors& all,
                                                TensorView seconds) const {
  std::vector<AdamWTensors> tensors;
  for (const UpdatedRange& range : all_) {
    if (range.unit != unit || !range.second) continue;
    tensors.push_back(rows_of(all, range.within, range.count));
    tensors.back().exp_avg_sq = seconds.rows(*range.second, range.count);
    tensors.back().decays = range.parameter->decays();
  }
  return tensors;
}

std::vector<Slice> UpdatedRanges::held(TensorView seconds) const {
  std::vector<Slice> slices;
  for (const UpdatedRange& range : all_) {
    if (!range.second) continue;
    slices.push_back({range.parameter, range.first, seconds.rows(*range.second, range.count)});
  }
  return slices;
}

std::vector<Slice> UpdatedRanges::owned(TensorView seconds) const {
  std::vector<Slice> slices;
  for (const UpdatedRange& range : all_) {
    if (!range.second || !range.parameter->counted) continue;
    const FlatRange owned = owned_range(layout_, range.unit, rank_);
    const size_t begin = shard_begin(layout_, range.unit, rank_) + owned.first;
    const size_t from = std::max(begin, range.begin);
    const size_t to = std::min(begin + owned.count, range.begin + range.count);
    if (from >= to) continue;
    const size_t skipped = from - range.begin;
    slices.push_back(
        {range.parameter, range.first + skipped, seconds.rows(*range.second + skipped, to - from)});
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

// Returns the weight that a rank makes orthogonal in a round, or null if it has none.
const HomedWeight* weight_in(const MuonHomes& homes, size_t home, size_t round) {
  return round < homes.at(home).size() ? homes.at(home)[round] : nullptr;
}

// Returns how many elements each rank sends to each home in a round.
PairCounts counts_in(const MuonHomes& homes, size_t round) {
  std::vector<size_t> counts;
  for (size_t from = 0; from < homes.size(); ++from) {
    for (size_t home = 0; home < homes.size(); ++home) {
      const HomedWeight* const weight = weight_in(homes, home, round);
      counts.push_back(weight == nullptr ? 0 : weight->parts[from].count);
    }
  }
  return PairCounts(homes.size(), std::move(counts));
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
      ranges_(context.config.optimizer, layout, rank, is_sharded),
      groups_(groups_of(context.config.optimizer, layout, rank, is_sharded, ranks)),
      muon_(context.device_memory, context.config.optimizer, context.config.accumulation(),
            weights_at_home(groups_)) {
  allocate(context);
}

std::deque<MuonState::Group> MuonState::groups_of(const OptimizerConfig& config,
                                                  const Layout& layout, size_t rank,
                                                  bool is_sharded, const MuonRanks& ranks) {
  std::deque<Group> groups;
  for (const bool of_divided : {false, true}) {
    Communicator* const own = of_divided ? ranks.of_divided : ranks.all;
    const MuonHomes::Group group = {.size = own == nullptr ? 1 : own->size(),
                                    .has_shards = is_sharded,
                                    .of_divided = of_divided,
                                    .choice = ranks.choice};
    groups.emplace_back(own, config, layout, rank, group);
  }
  return groups;
}

void MuonState::allocate(const TrainerContext& context) {
  size_t own = 0, home = 0, whole = 0, slice = 0;
  for (const Group& group : groups_) {
    for (size_t round = 0; round < group.homes.num_rounds(); ++round) {
      const PairCounts counts = counts_in(group.homes, round);
      own = std::max(own, counts.sent(group.rank()));
      if (group.homes.size() == 1) continue;
      home = std::max(home, counts.received(group.rank()));
      const HomedWeight* const weight = weight_in(group.homes, group.rank(), round);
      if (weight == nullptr || layout_.part().tensor_size == 1) continue;
      whole = std::max(whole, weight->parts[0].slice->full_shape.num_elements());
      slice = std::max(slice, weight->parts[0].slice->most_elements);
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
    for (size_t home = 0; home < homes.size(); ++home) {
      if (counts.of(rank, home) == 0) continue;
      const HomedWeight& weight = *weight_in(homes, home, round);
      body(own_part(part_of, weight, weight.parts[rank]),
           own_.view().rows(counts.begin_sent(rank, home), counts.of(rank, home)));
    }
  };
  for_own_parts([&](const AdamWTensors& part, TensorView blended) {
    muon_blend(stream, blended, part.exp_avg, part.grad, momentum_, step.grad_scale);
  });
  TensorView parts = own_;
  if (homes.size() > 1) {
    const CallOptions options = {.purpose = Purpose::update};
    const TensorView own = own_.view().rows(0, counts.sent(rank));
    parts = home_.view().rows(0, counts.received(rank));
    group.ranks->all_to_all(stream, parts, own, counts, options).wait(stream);
    if (const HomedWeight* weight = weight_in(homes, rank, round)) {
      run_at_home(stream, *weight, parts, step.learning_rate);
    }
    group.ranks->all_to_all(stream, own, parts, counts.reversed(), options).wait(stream);
  } else {
    run_at_home(stream, *weight_in(homes, rank, round), parts.rows(0, counts.sent(rank)),
                step.learning_rate);
  }
  for_own_parts([&](const AdamWTensors& part, TensorView moved) {
    muon_move(stream, part.param, part.copy, moved, step);
  });
}

void MuonState::run_at_home(Stream& stream, const HomedWeight& weight, TensorView parts,
                            double learning_rate) {
  const Parameter& parameter = *weight.parts[0].slice;
  // Shards lie in the order of their ranks: together they are the weight. Slices may not be.
  const bool is_split = layout_.part().tensor_size > 1;
  const TensorView whole = is_split ? whole_.view().elements(0, parameter.full_shape)
                                    : parts.reshape(parameter.full_shape);
  if (is_split) copy_slices(stream, weight, parts, whole, true);
  muon_.orthogonalize_all(stream, parameter, whole, learning_rate);
  if (is_split) copy_slices(stream, weight, parts, whole, false);
}

void MuonState::copy_slices(Stream& stream, const HomedWeight& weight, TensorView parts,
                            TensorView whole, bool to_whole) {
  const size_t tensor_size = layout_.part().tensor_size;
  for (size_t t = 0; t < tensor_size; ++t) {
    const Parameter& parameter = *weight.parts[t].slice;
    // Of copies one is enough; all of them are alike.
    if (parameter.shape.num_elements() == 0 || (to_whole && !parameter.counted)) continue;
    const TensorView slice = slice_.view().rows(0, parameter.shape.num_elements());
    const auto for_parts = [&](auto body) {
      size_t begin = 0;
      for (size_t rank = 0; rank < weight.parts.size(); ++rank) {
        const WeightPart& part = weight.parts[rank];
        if (rank % tensor_size == t && part.count > 0) {
          body(slice.rows(part.first, part.count), parts.rows(begin, part.count));
        }
        begin += part.count;
      }
    };
    if (!to_whole) copy_slice(stream, parameter, slice, whole, false);
    for_parts([&](TensorView of_slice, TensorView part) {
      return to_whole ? copy(stream, of_slice, part) : copy(stream, part, of_slice);
    });
    if (to_whole) copy_slice(stream, parameter, slice, whole, true);
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
