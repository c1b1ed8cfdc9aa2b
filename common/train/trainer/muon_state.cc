#include "common/train/trainer/muon_state.h"

#include <algorithm>
#include <utility>

#include "kernels/columns.h"

namespace ladder {
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
      momentum_(context.config.optimizer.muon_momentum),
      weight_decay_(context.config.optimizer.weight_decay),
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

MatrixWork MuonState::work() const {
  size_t matrices = 0;
  for (const Group& group : groups_) matrices += group.homes.matrices_at(group.rank());
  return {matrices, static_cast<size_t>(muon_.num_calls())};
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

void MuonState::update(Stream& stream, const Tensors& tensors, const UpdateStep& step) {
  for (const Group& group : groups_) {
    for (size_t round = 0; round < group.homes.num_rounds(); ++round) {
      run_round(stream, group, round, tensors, step);
    }
  }
}

void MuonState::run_round(Stream& stream, const Group& group, size_t round, const Tensors& tensors,
                          const UpdateStep& step) {
  const MuonHomes& homes = group.homes;
  const size_t rank = group.rank();
  const PairCounts counts = counts_in(homes, round);
  const auto for_own_parts = [&](auto body) {
    size_t begin = 0;
    for (size_t home = 0; home < homes.size(); ++home) {
      for (const HomedWeight* weight : homes.in_round(home, round)) {
        const WeightPart& part = weight->parts[rank];
        if (part.count == 0) continue;
        body(own_part(tensors, *weight), own_.view().rows(begin, part.count));
        begin += part.count;
      }
    }
  };
  for_own_parts([&](const UpdateTensors& part, TensorView blended) {
    muon_blend(stream, blended, part.state[0], part.grad, momentum_, step.grad_scale);
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
  const double keep = 1 - step.learning_rate * weight_decay_;
  for_own_parts([&](const UpdateTensors& part, TensorView moved) {
    muon_move(stream, part.param, part.copy, moved, keep);
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

const UpdateTensors& MuonState::own_part(const Tensors& tensors, const HomedWeight& weight) const {
  const Parameter& parameter = layout_.unit(weight.unit).parameters[weight.index];
  const auto own = std::ranges::find(tensors, &parameter, &UpdateTensors::parameter);
  check(own != tensors.end(), "MuonState: this rank has another part of a weight");
  return *own;
}

}  // namespace ladder
