#include "common/model/muon_homes.h"

#include <algorithm>
#include <functional>

#include "common/model/muon.h"

namespace ladder {
namespace {

// Of the largest weight: what a rank may have to send in a round. Homes receive one each, so with
// equal parts it would be one. But a shard has its place in each block, and if a round has weights
// of one kind, one or two ranks have all of them.
constexpr size_t kMostSent = 4;

}  // namespace

double muon_flops(const OptimizerConfig& config, const Parameter& parameter) {
  double flops = 0;
  for (const MuonMatrix& matrix : muon_matrices(config, parameter)) {
    const auto k = static_cast<double>(std::min(matrix.rows, matrix.columns));
    const auto n = static_cast<double>(std::max(matrix.rows, matrix.columns));
    flops += Muon::kIterations * 2 * (k * k * n + k * k * k + k * k * n);
  }
  return flops;
}

MuonHomes::MuonHomes(const OptimizerConfig& config, const Layout& layout, size_t rank,
                     const Group& group)
    : config_(config), layout_(layout), group_(group), at_(group.size) {
  ModelPartition part = layout.part();
  const size_t tensor_size = part.tensor_size;
  for (part.tensor_rank = 0; part.tensor_rank < tensor_size; ++part.tensor_rank) {
    slices_.emplace_back(layout.config(), layout.world_size(), part);
  }
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    const Unit& u = layout.unit(unit);
    if ((u.expert_size > 1) != group.of_divided) continue;
    for (size_t i = 0; i < u.parameters.size(); ++i) {
      if (u.parameters[i].trainable && is_muons(u.parameters[i].matrix)) add_weight(unit, i, rank);
    }
  }
  choose();
  divide_into_rounds();
}

void MuonHomes::add_weight(size_t unit, size_t index, size_t rank) {
  HomedWeight weight = {.unit = unit, .index = index, .parts = {}};
  const size_t tensor_size = slices_.size();
  const size_t num_parts = tensor_size * (group_.has_shards ? layout_.unit(unit).num_shards : 1);
  check(group_.size == num_parts, "MuonHomes: ranks outside the group have parts of a weight");
  for (size_t g = 0; g < group_.size; ++g) {
    const Layout& layout = slices_[g % tensor_size].trained();
    const Unit& u = layout.unit(unit);
    const Parameter& slice = u.parameters[index];
    WeightPart part = {&slice, 0, slice.shape.num_elements()};
    if (group_.has_shards) {
      // Of the ranks that hold a shard, one is like the other.
      const size_t holders = layout.world_size() / u.num_shards;
      const size_t holder = g / tensor_size * holders + rank % holders;
      const size_t begin = u.offset + slice.offset, shard = shard_begin(layout, unit, holder);
      const size_t from = std::clamp(shard, begin, begin + part.count);
      const size_t to = std::clamp(shard + shard_elements(layout, unit), begin, begin + part.count);
      part.first = from - begin, part.count = to - from;
    }
    weight.parts.push_back(part);
  }
  weights_.push_back(std::move(weight));
}

void MuonHomes::choose() {
  const auto flops = [&](const HomedWeight* weight) {
    return muon_flops(config_, *weight->parts[0].slice);
  };
  std::vector<HomedWeight*> order;
  for (HomedWeight& weight : weights_) order.push_back(&weight);
  if (group_.choice == HomeChoice::longest_first) {
    std::ranges::stable_sort(order, std::greater(), flops);
  }
  std::vector<double> load(group_.size);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto least = static_cast<size_t>(std::ranges::min_element(load) - load.begin());
    order[i]->home = group_.choice == HomeChoice::longest_first ? least : i % group_.size;
    load[order[i]->home] += flops(order[i]);
    at_[order[i]->home].push_back(order[i]);
  }
  for (auto& weights : at_) std::ranges::stable_sort(weights, std::greater(), flops);
}

void MuonHomes::divide_into_rounds() {
  const auto elements = [](const HomedWeight& weight) {
    return weight.parts[0].slice->full_shape.num_elements();
  };
  size_t most = 0, num_left = 0;
  for (const Weights& weights : at_) num_left += weights.size();
  for (const HomedWeight& weight : weights_) most = std::max(most, elements(weight));
  rounds_.resize(size());
  std::vector<size_t> next(size());  // by home
  for (; num_left > 0; ++num_rounds_) {
    std::vector<size_t> sent(size());  // by rank
    bool is_first = true;
    for (size_t home = 0; home < size(); ++home) {
      Weights& own = rounds_[home].emplace_back();
      size_t at_home = 0;
      for (; next[home] < at_[home].size(); ++next[home]) {
        const HomedWeight& weight = *at_[home][next[home]];
        bool fits = at_home + elements(weight) <= most;
        for (size_t rank = 0; rank < size(); ++rank) {
          fits = fits && sent[rank] + weight.parts[rank].count <= kMostSent * most;
        }
        if (!fits && !is_first) break;
        for (size_t rank = 0; rank < size(); ++rank) sent[rank] += weight.parts[rank].count;
        at_home += elements(weight);
        own.push_back(&weight);
        is_first = false;
        --num_left;
      }
    }
  }
}

const MuonHomes::Weights& MuonHomes::in_round(size_t home, size_t round) const {
  return rounds_[home][round];
}

size_t MuonHomes::matrices_at(size_t home) const {
  size_t matrices = 0;
  for (const HomedWeight* weight : at_[home]) {
    matrices += num_matrices(config_, weight->parts[0].slice->matrix);
  }
  return matrices;
}

double MuonHomes::flops_at(size_t home) const {
  double flops = 0;
  for (const HomedWeight* weight : at_[home]) flops += muon_flops(config_, *weight->parts[0].slice);
  return flops;
}

}  // namespace ladder
